"""The one exception for a mistake that the user can mend."""

from collections.abc import Iterable


class InputError(ValueError):
    """Something given by the user is wrong; the message says what was expected, what came, and the way out.

    It is a `ValueError`, so code that does not know this package can catch it. The command line prints its message
    without a traceback.

    Example:
        >>> from sizeshiftreg import Coarsen
        >>> try:
        ...     Coarsen(ratios=(1.5,))
        ... except InputError as error:
        ...     print(error)
        ratios: expected one or more different numbers between 0 and 1, such as (0.8, 0.9); got (1.5,)
    """


def choice(name: str, value: object, allowed: Iterable[object]) -> None:
    """Raise unless `value` is one of `allowed` (an iterable of names).

    Example:
        >>> choice("readout", "sum", ("sum", "mean"))
        >>> choice("readout", "median", ("sum", "mean"))
        Traceback (most recent call last):
        sizeshiftreg.errors.InputError: readout: expected one of sum, mean; got 'median'
    """
    names = tuple(allowed)
    if value not in names:
        raise InputError(f"{name}: expected one of {', '.join(map(str, names))}; got {value!r}")
