"""Experiment: its id, its checks, and rows that repeat."""

import math
from dataclasses import fields, replace

import pytest
import torch

from sizeshiftreg import Coarsen, Experiment, InputError, load_dataset, run, size_split
from sizeshiftreg.experiment import make_encoder
from sizeshiftreg.store import GraphStore

QUICK = Experiment(dataset="toy_density", method="size_shift", epochs=2, batch_size=64, lr=0.01)
TIMES = {"seconds"}


def without_times(row):
    return {name: value for name, value in row.items() if name not in TIMES}


def test_ids_are_stable():
    """Results are stored by id: an id that changes orphans them."""
    assert Experiment(dataset="PROTEINS").id == "c9f48dcd69034ee0"
    assert QUICK.id == "d966219f42ffa8b4"


def test_a_value_equal_to_its_default_does_not_change_the_id():
    assert replace(QUICK, hidden_dim=32).id == QUICK.id
    assert replace(QUICK, lr=1).id == replace(QUICK, lr=1.0).id
    assert len({replace(QUICK, seed=seed).id for seed in range(5)}) == 5


def test_a_list_of_ratios_is_a_tuple_of_ratios():
    assert replace(QUICK, ratios=[0.5, 0.9]) == replace(QUICK, ratios=(0.5, 0.9))


def test_a_row_holds_the_experiment_and_the_outcome():
    row = run(QUICK)
    assert {field.name for field in fields(QUICK)} < set(row)
    expected = {"train_mcc", "val_mcc", "test_mcc", "last_test_mcc", "best_epoch", "seconds", "status", "error", "id"}
    expected |= {"device", "git", "data_hash", "split_hash", "views_hash", "torch_version", "sizeshiftreg_version"}
    assert expected < set(row)
    assert all(-1 <= row[f"{part}_mcc"] <= 1 for part in ("train", "val", "test", "last_test"))
    assert all(isinstance(value, str | int | float | bool | list | None) for value in row.values())


def test_the_same_experiment_gives_the_same_row_whatever_ran_before():
    first = run(QUICK)
    torch.manual_seed(123)
    torch.set_num_threads(2)
    run(replace(QUICK, seed=1))
    again = run(QUICK)
    assert torch.get_num_threads() == 2, "the number of threads was not put back"
    torch.set_num_threads(1)
    assert without_times(again) == without_times(first)
    assert without_times(run(replace(QUICK, seed=1))) != without_times(first)


def test_the_callers_random_state_is_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    run(QUICK)
    assert torch.equal(torch.get_rng_state(), before)


def test_weight_0_is_the_plain_method():
    plain, zero = run(replace(QUICK, method="plain")), run(replace(QUICK, weight=0.0))
    for name in ("train_mcc", "val_mcc", "test_mcc", "last_test_mcc", "best_epoch", "split_hash"):
        assert plain[name] == zero[name], name


def test_the_views_hash_is_that_of_the_partitions():
    rows = [
        run(replace(QUICK, epochs=1, **options)) for options in ({}, {"seed": 5, "split_seed": 5}, {"ratios": (0.7,)})
    ]
    assert rows[0]["views_hash"] == rows[1]["views_hash"] != rows[2]["views_hash"]
    assert run(replace(QUICK, epochs=1, method="plain"))["views_hash"] == ""


@pytest.mark.parametrize("model", ["gin", "gcn", "pna"])
@pytest.mark.parametrize("method", ["plain", "size_shift"])
def test_every_model_and_method_runs(model, method):
    assert run(replace(QUICK, model=model, method=method, epochs=1))["status"] == "ok"


def test_only_the_pool_is_coarsened(monkeypatch):
    seen = []
    original = Coarsen.forward
    monkeypatch.setattr(Coarsen, "forward", lambda self, data: seen.append(data.num_nodes) or original(self, data))
    run(replace(QUICK, coarse_seed=99))  # a seed no other test has, so that nothing is remembered
    sizes = size_split(list(load_dataset("toy_density"))).sizes
    assert sorted(seen) == sorted(size for size in sizes.tolist() if size <= sizes.double().quantile(0.5))


def test_a_training_that_diverges_is_a_failed_row():
    row = run(replace(QUICK, lr=1e30, epochs=5))
    assert (row["status"], row["id"]) == ("failed", replace(QUICK, lr=1e30, epochs=5).id)
    assert "not finite" in row["error"]
    assert "test_mcc" not in row


@pytest.mark.data
def test_only_the_training_graphs_tell_pna_the_degrees(paper_dataset):
    graphs = list(paper_dataset("PROTEINS")[:20])
    encoder = make_encoder(replace(QUICK, model="pna"), GraphStore.from_graphs(graphs))
    degrees = torch.cat([torch.bincount(item.edge_index[1], minlength=item.num_nodes) for item in graphs])
    found = next(value for name, value in encoder.named_buffers() if name.endswith("avg_deg_log"))
    torch.testing.assert_close(found.squeeze(), (degrees + 1).log().mean())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("model", "gat", "model: expected one of gin, gcn, pna; got 'gat'"),
        ("method", "dropout", "method: expected one of plain, size_shift; got 'dropout'"),
        ("coarsener", "louvain", "coarsener: expected one of sgc, mlgc, .*, random, auto; got 'louvain'"),
        ("coarse_features", "median", "coarse_features: expected one of mean, sum, max"),
        ("readout", "median", "readout: expected one of"),
        ("bound", "relu", "bound: expected one of tanh, sigmoid"),
        ("batch_norm", "none", "batch_norm: expected one of all, original"),
        ("pna_degrees", "edges", "pna_degrees: expected one of nodes, bins"),
        ("ratios", (1.5,), "between 0 and 1"),
        ("ratios", (0.0,), "between 0 and 1"),
        ("weight", -1.0, "weight: expected a finite number of at least 0; got -1.0"),
        ("weight", math.nan, "weight: expected a finite number"),
        ("weight", math.inf, "weight: expected a finite number"),
        ("epochs", 0, "epochs: expected an integer of at least 1; got 0"),
        ("epochs", 1.5, "epochs: expected an integer"),
        ("seed", -1, "seed: expected an integer of at least 0"),
        ("batch_size", 1, "batch_size: expected an integer of at least 2"),
        ("lr", 0, "lr: expected a finite number above 0"),
        ("dropout", 1.0, "dropout: expected a share"),
    ],
)
def test_a_field_out_of_range_is_refused_before_anything_runs(field, value, message):
    with pytest.raises(InputError, match=message):
        replace(QUICK, **{field: value})
