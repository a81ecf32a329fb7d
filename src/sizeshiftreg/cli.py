"""The command line: parsing and printing, nothing else."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from torch_geometric.data import Data

from sizeshiftreg.coarsening import COARSENER_NAMES
from sizeshiftreg.coarsening.cache import CACHE_FILE
from sizeshiftreg.coarsening.contract import Reduce
from sizeshiftreg.coarsening.threads import one_thread
from sizeshiftreg.coarsening.transform import Coarsen
from sizeshiftreg.datasets import TU_DATASETS, is_here, load_dataset
from sizeshiftreg.draw import check_drawable, draw
from sizeshiftreg.errors import InputError, choice
from sizeshiftreg.experiment import Experiment, Row
from sizeshiftreg.export import export, warm_up
from sizeshiftreg.recipes import Published, find_cell
from sizeshiftreg.report import (
    FULL_AND_SAMPLED,
    PLAIN_AND_REGULARISED,
    cells,
    coarsening_cells,
    coarsening_notes,
    compare_rows,
    markdown,
    verdict,
)
from sizeshiftreg.reproduce import WorkerDiedError, missing, run_missing
from sizeshiftreg.results import ResultStore
from sizeshiftreg.splits import size_split
from sizeshiftreg.synthetic import SYNTHETIC

app = typer.Typer(
    help="Train graph neural networks on small graphs so that they keep working on larger ones.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_out = Console()
_err = Console(stderr=True)

_DATA = "Data and results"
_TRAINING = "Training (default: the recipe's, where there is one)"
_SHIFT = "The regulariser (as above)"
Dataset = Annotated[str, typer.Argument(help="A data set (see `datasets`), or a folder with .pt files of PyG graphs.")]
Root = Annotated[Path, typer.Option(help="Folder of downloaded data sets.", rich_help_panel=_DATA)]
Mirror = Annotated[
    str | None,
    typer.Option(help="Address of a folder with NAME.zip files.", envvar="SIZESHIFTREG_MIRROR", rich_help_panel=_DATA),
]
Results = Annotated[Path, typer.Option(help="Folder of the rows of finished runs.", rich_help_panel=_DATA)]
ModelName = Annotated[str, typer.Option(help="gin, gcn or pna.")]
Device = Annotated[str, typer.Option(help="Torch device, such as cpu or cuda.", rich_help_panel=_DATA)]
SplitSeed = Annotated[int, typer.Option(help="Seed of the draw of the validation graphs.")]
Epochs = Annotated[int | None, typer.Option(help="The best one on validation is tested.", rich_help_panel=_TRAINING)]
BatchSize = Annotated[int | None, typer.Option(help="Graphs in a step.", rich_help_panel=_TRAINING)]
LearningRate = Annotated[float | None, typer.Option(help="Learning rate of Adam.", rich_help_panel=_TRAINING)]
HiddenDim = Annotated[int | None, typer.Option(help="Width of the encoder.", rich_help_panel=_TRAINING)]
Coarsener = Annotated[
    str | None, typer.Option(help="Coarsening method (see `coarsen --help`).", rich_help_panel=_SHIFT)
]
Ratio = Annotated[list[float] | None, typer.Option(help="Coarsening ratio; repeat for more.", rich_help_panel=_SHIFT)]
CoarseFeatures = Annotated[str | None, typer.Option(help="mean, sum or max.", rich_help_panel=_SHIFT)]
Weight = Annotated[float | None, typer.Option(help="Weight of the regulariser.", rich_help_panel=_SHIFT)]
BatchNorm = Annotated[
    str | None,
    typer.Option(help="Who moves the batch-norm statistics: all or original.", rich_help_panel=_SHIFT),
]
ViewsOption = Annotated[
    str | None, typer.Option("--views", help="all in every step, or sampled.", rich_help_panel=_SHIFT)
]
Share = Annotated[
    float | None, typer.Option(help="With sampled views, the share of the graphs.", rich_help_panel=_SHIFT)
]


@app.command()
def datasets(root: Root = Path("data")) -> None:
    """List the data sets: sizes, classes, size split, and whether they are here."""
    header = ["data set", "graphs", "nodes", "features", "classes", "small", "large", "where"]
    body = []
    for name, facts in TU_DATASETS.items():
        numbers = (facts.graphs, facts.nodes, facts.features, facts.classes, facts.pool, facts.test)
        where = "here" if is_here(name, root) else "to download"
        body.append([name, *(f"{number:,}" for number in numbers), where])
    for name in SYNTHETIC:
        dataset = load_dataset(name)
        split = size_split(dataset)
        nodes = int(split.sizes.sum())
        numbers = (len(dataset), nodes, dataset.num_features, dataset.num_classes, len(split.pool), len(split.test))
        body.append([name, *(f"{number:,}" for number in numbers), "made here"])
    _print_table([header, *body])
    _out.print("small: the smallest 50% train and validate; large: the largest 10% test", style="dim")


@app.command()
def run(
    dataset: Dataset,
    model: ModelName = "gin",
    method: Annotated[str, typer.Option(help="plain or size_shift.")] = "size_shift",
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 0,
    split_seed: SplitSeed = 0,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    lr: LearningRate = None,
    hidden_dim: HiddenDim = None,
    coarsener: Coarsener = None,
    ratio: Ratio = None,
    coarse_features: CoarseFeatures = None,
    weight: Weight = None,
    batch_norm: BatchNorm = None,
    views: ViewsOption = None,
    share: Share = None,
    root: Root = Path("data"),
    mirror: Mirror = None,
    results: Results = Path("runs"),
    device: Device = "cpu",
) -> None:
    """Train once, test on the large graphs, and print the row."""
    training: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "hidden_dim": hidden_dim}
    shift = _shift_options(coarsener, ratio, coarse_features, weight, batch_norm, views, share)
    experiment = _experiment(dataset, model, method, training | shift, seed=seed, split_seed=split_seed)
    store = ResultStore(results)
    row = _run_all([experiment], store, jobs=1, root=root, mirror=mirror, device=device)[0]
    for name, value in row.items():
        _out.print(f"{name:>24}  {value}", highlight=False)


@app.command()
def compare(
    dataset: Dataset,
    model: ModelName = "gin",
    seeds: Annotated[int, typer.Option(help="Number of seeds.", min=1)] = 10,
    new_splits: Annotated[
        bool,
        typer.Option("--new-splits", help="A new validation split for every seed, instead of one for all."),
    ] = False,
    split_seed: SplitSeed = 0,
    jobs: Annotated[int, typer.Option(help="Runs at once, one thread each.", min=1)] = 1,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    lr: LearningRate = None,
    hidden_dim: HiddenDim = None,
    coarsener: Coarsener = None,
    ratio: Ratio = None,
    coarse_features: CoarseFeatures = None,
    weight: Weight = None,
    batch_norm: BatchNorm = None,
    views: ViewsOption = None,
    share: Share = None,
    against: Annotated[
        str, typer.Option(help="Compare with plain training, or with that on the full views.")
    ] = "plain",
    root: Root = Path("data"),
    mirror: Mirror = None,
    results: Results = Path("runs"),
    device: Device = "cpu",
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Only read finished runs; stop if one is missing.", rich_help_panel=_DATA)
    ] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
) -> None:
    """Train with and without the regulariser and compare on large graphs, seed by seed.

    Finished runs are kept in the results folder; the same command goes on where it was stopped.
    """
    training: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "hidden_dim": hidden_dim}
    choice("against", against, ("plain", "full"))
    shift = _shift_options(coarsener, ratio, coarse_features, weight, batch_norm, views, share)
    if against == "full" and views != "sampled":
        raise InputError("against full: expected sampled views to compare with the full ones; add --views sampled")
    full = shift | {"views": None, "share": None}
    first = ("plain", training) if against == "plain" else ("size_shift", training | full)
    plain, regularised = (
        [
            _experiment(dataset, model, method, given, seed=seed, split_seed=seed if new_splits else split_seed)
            for seed in range(seeds)
        ]
        for method, given in (first, ("size_shift", training | shift))
    )
    store = ResultStore(results)
    pairs = [experiment for pair in zip(plain, regularised, strict=True) for experiment in pair]
    if no_train and (absent := missing(pairs, store)):
        raise InputError(f"{len(absent)} of {len(pairs)} runs are not in {results}: run the command without --no-train")
    _run_all(pairs, store, jobs=jobs, root=root, mirror=mirror, device=device)
    published = [_published(experiments[0]) for experiments in (plain, regularised)]
    comparison = compare_rows(
        [row for experiment in plain if (row := store.get(experiment))],
        [row for experiment in regularised if (row := store.get(experiment))],
        published=(published[0], published[1]) if published[0] and published[1] else None,
        names=PLAIN_AND_REGULARISED if against == "plain" else FULL_AND_SAMPLED,
    )
    if as_markdown:
        print(markdown(comparison))
        return
    _print_table(cells(comparison), title=comparison.title)
    _out.print(verdict(comparison), highlight=False, soft_wrap=True)


@app.command()
def coarsen(
    data: Annotated[list[str], typer.Argument(help="Data sets, or folders with .pt files of PyG graphs.")],
    method: Annotated[str, typer.Option(help=f"{', '.join(COARSENER_NAMES)}.")] = "sgc",
    ratio: Annotated[list[float], typer.Option(help="Coarsening ratio; repeat for more.")] = [0.8, 0.9],  # noqa: B006
    part: Annotated[str, typer.Option(help="all, or pool: the smallest 50%, which train.")] = "all",
    features: Annotated[Reduce, typer.Option(help="Features of coarse nodes: mean, sum or max.")] = "mean",
    seed: Annotated[int, typer.Option(help="Seed of methods that draw.")] = 0,
    jobs: Annotated[int, typer.Option(help="Threads.", min=1)] = 1,
    out: Annotated[Path, typer.Option(help="Folder to write to, a folder in it for each data set.")] = Path("coarse"),
    plot: Annotated[
        int | None, typer.Option(help="Draw a graph, counted in the part, beside its coarse versions.")
    ] = None,
    root: Root = Path("data"),
    mirror: Mirror = None,
    cache: Annotated[bool, typer.Option(help="Keep and reuse partitions in the root folder.")] = True,
) -> None:
    """Coarsen data sets; write partitions and coarse graphs, and say what came of it."""
    choice("part", part, ("all", "pool"))
    names = [Path(name).resolve().name for name in data]
    if len(set(names)) < len(names):
        raise InputError(f"data: expected different names, for each becomes a folder in {out}; got {', '.join(names)}")
    transform = Coarsen(method, ratios=ratio, seed=seed, cache=root / CACHE_FILE if cache else None)
    loaded = {}
    for name, which in zip(names, data, strict=True):
        if (out / name).resolve() == Path(which).resolve():
            raise InputError(f"{out / name} is where the graphs come from. Name another folder with --out")
        loaded[name] = _graphs_to_coarsen(which, part, root, mirror)
        if plot is not None:
            _check_plot(name, [graph for _, graph in loaded[name]], plot)
    with one_thread():
        compiled = max(warm_up(transform, [graph for _, graph in graphs]) for graphs in loaded.values())
        summaries = {}
        with _progress() as progress:
            task = progress.add_task("graphs", total=sum(map(len, loaded.values())))
            for name, graphs in loaded.items():
                numbers, items = zip(*graphs, strict=True)
                summaries[name] = export(
                    items,
                    transform,
                    out / name,
                    jobs=jobs,
                    reduce=features,
                    told={"part": part, "numbers": numbers},
                    advance=lambda: progress.advance(task),
                )
    _print_table(coarsening_cells(summaries))
    for line in coarsening_notes(summaries, jobs=jobs, compiled=compiled):
        _out.print(line, highlight=False, soft_wrap=True)
    for name, graphs in loaded.items():
        if plot is not None:
            number, graph = graphs[plot]
            graph = transform(graph)
            pictures = {f"{transform.chosen(graph.num_nodes)} {r}": graph.partitions[:, i] for i, r in enumerate(ratio)}
            file = out / name / f"graph-{number}.png"
            draw(graph, pictures, file, title=f"{name}, graph {number}")
            _out.print(f"drawn: {file}", highlight=False, soft_wrap=True)
    _out.print(f"written to {out}: graphs.pt with partitions, coarse-*/graphs.pt", style="dim", highlight=False)


def _graphs_to_coarsen(name: str, part: str, root: Path, mirror: str | None) -> list[tuple[int, Data]]:
    """Return the graphs with their numbers in the data set."""
    dataset = load_dataset(name, root=root, mirror=mirror, bare=True)
    numbers = range(len(dataset)) if part == "all" else size_split(dataset).pool.tolist()
    return [(number, dataset[number]) for number in numbers]


def _check_plot(name: str, graphs: list[Data], plot: int) -> None:
    if not 0 <= plot < len(graphs):
        raise InputError(f"plot: expected a graph of {name}, 0 to {len(graphs) - 1}; got {plot}")
    check_drawable(graphs[plot])


def _published(experiment: Experiment) -> Published | None:
    """Return the published figure of an experiment, if its settings are those it was published for."""
    cell = find_cell(experiment.dataset, experiment.model, experiment.method)
    return cell.published if replace(experiment, seed=0, split_seed=0) == cell.experiment else None


def _print_table(lines: list[list[str]], *, title: str | None = None) -> None:
    header, *body = lines
    if title:
        _out.print(title, style="bold", highlight=False, soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True)
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for line in body:
        table.add_row(*line)
    _out.print(table)


def _shift_options(
    coarsener: str | None,
    ratio: list[float] | None,
    coarse_features: str | None,
    weight: float | None,
    batch_norm: str | None,
    views: str | None,
    share: float | None,
) -> dict[str, Any]:
    return {
        "coarsener": coarsener,
        "ratios": tuple(ratio) if ratio else None,
        "coarse_features": coarse_features,
        "weight": weight,
        "batch_norm": batch_norm,
        "views": views,
        "share": share,
    }


def _experiment(
    dataset: str, model: str, method: str, options: dict[str, Any], *, seed: int, split_seed: int
) -> Experiment:
    """Take the recipe's settings, and in their place those that were given."""
    given = {name: value for name, value in options.items() if value is not None}
    return replace(find_cell(dataset, model, method).experiment, seed=seed, split_seed=split_seed, **given)


def _run_all(
    experiments: list[Experiment],
    store: ResultStore,
    *,
    jobs: int,
    root: Path,
    mirror: str | None,
    device: str,
) -> list[Row]:
    """Run what is missing behind a progress bar; return all rows, or stop if one failed."""
    todo = len(missing(experiments, store))
    done = len(experiments) - todo
    failed = []
    with _progress() as progress:
        task = progress.add_task("runs", total=len(experiments), completed=done)
        try:
            for row in run_missing(experiments, store, jobs=jobs, root=root, mirror=mirror, device=device):
                progress.advance(task)
                if row["status"] != "ok":
                    failed.append(row)
        except KeyboardInterrupt:
            _complain("stopped; every finished run is kept, and the same command goes on from there")
            raise typer.Exit(130) from None
    for row in failed:
        _err.print(f"failed: {row['method']}, seed {row['seed']}: {row['error']}", highlight=False)
    if failed:
        _err.print(f"{len(failed)} of {len(experiments)} runs failed; details in {store.folder / 'failed'}")
        raise typer.Exit(1)
    return [finished for experiment in experiments if (finished := store.get(experiment))]


def _progress() -> Progress:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=_err, transient=True)


def main() -> None:
    """Run the command line; print a user's mistake without a traceback, and exit with 2."""
    warnings.showwarning = _show_warning
    try:
        app()
    except InputError as error:
        _complain(f"error: {error}")
        sys.exit(2)
    except WorkerDiedError as error:
        _complain(f"error: {error}")
        sys.exit(1)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Print our own warnings as the user meets them; leave out those of libraries, which are for developers."""
    if issubclass(category, RuntimeWarning):
        _complain(f"warning: {message}")


def _complain(message: str) -> None:
    _err.print(message, style="red", highlight=False, soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
