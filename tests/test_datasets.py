"""load_dataset: mirrors, broken downloads, folders of one's own, and the graphs it refuses."""

import time
import zipfile

import pytest
import torch
from torch_geometric.data import Data

from conftest import graph, undirected
from sizeshiftreg import InputError, load_dataset
from sizeshiftreg.datasets import TU_DATASETS, DatasetFacts, DegreeFeatures, check_classes, check_graphs, is_here
from sizeshiftreg.synthetic import SYNTHETIC

# Two triangles' worth of a data set in the raw layout of the collection: graph 1 is an edge, graph 2 a path of 3.
FILES = {
    "A": "1, 2\n2, 1\n3, 4\n4, 3\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n2\n2\n2\n",
    "graph_labels": "1\n2\n",
    "node_labels": "0\n1\n0\n0\n1\n",
}
TINY = DatasetFacts(graphs=2, nodes=5, edges=6, features=2, classes=2, pool=1, test=1)


def make_mirror(folder, *, name="TINY", files=FILES, inside=None, compression=zipfile.ZIP_STORED):
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}.zip", "w", compression) as archive:
        for part, text in files.items():
            archive.writestr(f"{inside or name}/{inside or name}_{part}.txt", text)
    return folder.as_uri()


@pytest.fixture(autouse=True)
def tiny(monkeypatch, request):
    monkeypatch.setitem(TU_DATASETS, "TINY", TINY)
    if "data" not in request.keywords:
        monkeypatch.delenv("SIZESHIFTREG_MIRROR", raising=False)


def test_a_mirror_by_option_and_by_environment(tmp_path, monkeypatch):
    mirror = make_mirror(tmp_path / "mirror")
    by_option = load_dataset("TINY", root=tmp_path / "a", mirror=mirror)
    monkeypatch.setenv("SIZESHIFTREG_MIRROR", mirror + "/")
    by_environment = load_dataset("TINY", root=tmp_path / "b")
    for dataset in (by_option, by_environment):
        assert [item.num_nodes for item in dataset] == [2, 3]
        assert dataset[1].x.tolist() == [[1, 0], [1, 0], [0, 1]]
        assert dataset.y.tolist() == [0, 1]


def test_what_is_here_is_not_downloaded_again(tmp_path):
    assert not is_here("TINY", tmp_path / "data")
    load_dataset("TINY", root=tmp_path / "data", mirror=make_mirror(tmp_path / "mirror"))
    assert is_here("TINY", tmp_path / "data")
    assert len(load_dataset("TINY", root=tmp_path / "data", mirror="file:///nowhere")) == 2


def test_a_failed_download_names_the_address_and_the_way_out(tmp_path):
    with pytest.raises(InputError, match=r"from file:///nowhere/TINY.zip: FileNotFoundError.*SIZESHIFTREG_MIRROR"):
        load_dataset("TINY", root=tmp_path, mirror="file:///nowhere")
    with pytest.raises(InputError, match=r"from nothing://mirror/TINY.zip: .*--mirror"):
        load_dataset("TINY", root=tmp_path, mirror="nothing://mirror")


def test_a_half_written_download_is_no_data_set(tmp_path):
    make_mirror(tmp_path / "mirror")
    archive = tmp_path / "mirror" / "TINY.zip"
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(InputError, match="TINY.zip is not the data set TINY: it is not a whole zip"):
        load_dataset("TINY", root=tmp_path / "data", mirror=archive.parent.as_uri())
    assert not (tmp_path / "data" / "TINY").exists()
    make_mirror(tmp_path / "mirror")
    assert len(load_dataset("TINY", root=tmp_path / "data", mirror=archive.parent.as_uri())) == 2


def test_a_damaged_member_is_noticed(tmp_path):
    make_mirror(tmp_path / "mirror")
    archive = tmp_path / "mirror" / "TINY.zip"
    archive.write_bytes(archive.read_bytes().replace(b"1, 2\n2, 1", b"1, 3\n2, 1"))
    with pytest.raises(InputError, match="not a whole zip file .*Bad CRC"):
        load_dataset("TINY", root=tmp_path / "data", mirror=archive.parent.as_uri())


def test_damaged_compressed_data_are_noticed(tmp_path):
    make_mirror(tmp_path / "mirror", compression=zipfile.ZIP_DEFLATED)
    archive = tmp_path / "mirror" / "TINY.zip"
    content = bytearray(archive.read_bytes())
    content[45:60] = bytes(15)  # inside the first member's compressed data
    archive.write_bytes(content)
    with pytest.raises(InputError, match="TINY.zip is not the data set TINY: it is not a whole zip file"):
        load_dataset("TINY", root=tmp_path / "data", mirror=archive.parent.as_uri())


@pytest.mark.parametrize(
    ("files", "inside", "message"),
    [
        (FILES, "OTHER", r"TINY.zip is not the data set TINY: expected TINY_A.txt.*got OTHER_A.txt"),
        ({"A": FILES["A"]}, None, "expected TINY_A.txt, TINY_graph_indicator.txt.*got TINY_A.txt"),
        (
            {**FILES, "A": "1, 2\n2, 1\n4, 5\n5, 4\n"},
            None,
            r"expected \(2, 5, 6, 2, 2\) graphs, nodes.*got \(2, 5, 4, 2, 2\)",
        ),
        ({**FILES, "A": "not numbers\n"}, None, "TINY.zip is not the data set TINY: it cannot be read"),
    ],
)
def test_a_zip_that_is_not_the_data_set_is_refused_with_its_name(tmp_path, files, inside, message):
    mirror = make_mirror(tmp_path / "mirror", files=files, inside=inside)
    with pytest.raises(InputError, match=message):
        load_dataset("TINY", root=tmp_path / "data", mirror=mirror)
    assert not (tmp_path / "data" / "TINY").exists()


@pytest.mark.parametrize("damage", ["raw file missing", "processed file cut", "other facts"])
def test_a_folder_that_does_not_hold_the_data_set_is_refused(tmp_path, damage, monkeypatch):
    mirror = make_mirror(tmp_path / "mirror")
    load_dataset("TINY", root=tmp_path / "data", mirror=mirror)
    home = tmp_path / "data" / "TINY"
    if damage == "raw file missing":
        (home / "raw" / "TINY_A.txt").unlink()
    elif damage == "processed file cut":
        file = home / "processed" / "data.pt"
        file.write_bytes(file.read_bytes()[:100])
    else:
        monkeypatch.setitem(TU_DATASETS, "TINY", DatasetFacts(3, 5, 6, 2, 2, 1, 1))
    with pytest.raises(InputError, match=r"TINY.*Delete .*TINY|TINY.*Delete it"):
        load_dataset("TINY", root=tmp_path / "data", mirror=mirror)


def test_a_root_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write to .*--root"):
        load_dataset("TINY", root=tmp_path / "file", mirror=make_mirror(tmp_path / "mirror"))


@pytest.mark.data
@pytest.mark.parametrize("name", ["NCI1", "NCI109", "PROTEINS", "DD", "deezer_ego_nets"])
def test_the_papers_data_sets(name, paper_dataset):
    dataset, facts = paper_dataset(name), TU_DATASETS[name]
    assert (len(dataset), dataset.num_features) == (facts.graphs, facts.features)
    assert (dataset._data.x.sum(dim=1) == 1).all(), "features are one-hot"


@pytest.mark.data
def test_degrees_above_100_share_the_last_feature(paper_dataset):
    dataset = paper_dataset("deezer_ego_nets")
    degrees = [torch.bincount(item.edge_index[0], minlength=item.num_nodes) for item in dataset]
    above = [number for number, degree in enumerate(degrees) if degree.max() > 100]
    assert len(above) == 113
    for number in above:
        assert torch.equal(dataset[number].x.argmax(1), degrees[number].clamp(max=100))


@pytest.mark.parametrize("name", SYNTHETIC)
def test_synthetic_data_sets_repeat_and_are_made_in_a_second(name):
    start = time.perf_counter()
    first = SYNTHETIC[name]()
    assert time.perf_counter() - start < 1
    check_graphs(first)
    assert check_classes(first) == 2
    for one, two in zip(first, SYNTHETIC[name](), strict=True):
        assert torch.equal(one.x, two.x) and torch.equal(one.edge_index, two.edge_index) and torch.equal(one.y, two.y)
        assert one.is_undirected() and not one.has_self_loops() and one.is_coalesced()
    sizes = torch.tensor([item.num_nodes for item in first])
    assert (sizes <= 30).double().mean() == 0.5 and (sizes >= 120).double().mean() == 0.1
    assert not torch.equal(SYNTHETIC[name](seed=1)[0].edge_index, first[0].edge_index)


def test_degree_features_clip():
    star = graph(6, undirected([(0, leaf) for leaf in range(1, 6)]))
    assert DegreeFeatures(max_degree=3)(star).x.argmax(1).tolist() == [3, 1, 1, 1, 1, 1]


def test_a_folder_of_ones_own(tmp_path):
    torch.save([graph(3, [(0, 1)]), graph(2, [], y=1)], tmp_path / "b.pt")
    torch.save(graph(4, [], y=1), tmp_path / "a.pt")
    dataset = load_dataset(tmp_path)
    assert [item.num_nodes for item in dataset] == [4, 3, 2]
    assert dataset.num_classes == 2


def test_other_number_types_are_brought_into_one_form(tmp_path):
    item = graph(3, [(0, 1)])
    item.x, item.y = item.x.double(), torch.tensor([[1]], dtype=torch.int32)
    torch.save([item, graph(2, [])], tmp_path / "a.pt")
    dataset = load_dataset(tmp_path)
    assert (dataset[0].x.dtype, dataset[0].y.dtype, dataset[0].y.tolist()) == (torch.float32, torch.long, [1])


def test_folders_without_graphs_are_refused(tmp_path):
    with pytest.raises(InputError, match="there are none"):
        load_dataset(tmp_path)
    torch.save({"not": "graphs"}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"a.pt: expected a PyG Data or a list of them; got dict"):
        load_dataset(tmp_path)
    (tmp_path / "a.pt").write_text("not a file of torch")
    with pytest.raises(InputError, match=r"a.pt: .*it cannot be read"):
        load_dataset(tmp_path)
    torch.save([], tmp_path / "a.pt")
    with pytest.raises(InputError, match="the data set is empty"):
        load_dataset(tmp_path)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="unknown data set 'PROTEIN': expected one of NCI1, .*toy_density"):
        load_dataset("PROTEIN")


def changed(**values):
    item = graph(3, [(0, 1)])
    for name, value in values.items():
        item[name] = value
    return item


NAN = torch.tensor([[0.0, 1.0], [float("nan"), 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            Data(x=torch.empty(0, 2), edge_index=torch.empty(2, 0, dtype=torch.long), y=torch.tensor([0])),
            "at least one node",
        ),
        (changed(x=None), r"expected node features `x`; it has none. DegreeFeatures\(\)"),
        (changed(x=NAN), r"NaN or infinity in the rows \[1\]"),
        (changed(x=torch.ones(3)), r"shape \[num_nodes, width\]"),
        (changed(x=torch.ones(3, 2, dtype=torch.long)), "a float type; got torch.int64"),
        (changed(x=torch.ones(3, 5)), "width 2, as in graph 0; got 5"),
        (changed(edge_index=torch.tensor([[0], [3]])), "edges between the nodes 0 to 2; got ends from 0 to 3"),
        (changed(edge_index=torch.tensor([[-1], [0]])), "edges between the nodes 0 to 2; got ends from -1 to 0"),
        (changed(edge_index=None), "`edge_index`.*got none"),
        (changed(edge_index=torch.ones(2, 1)), "type int64; got torch.float32"),
        (changed(y=None), "expected a class `y`; it has none"),
        (changed(y=torch.tensor([0.5])), "an integer from 0 on"),
        (changed(y=torch.tensor([-1])), "an integer from 0 on"),
        (changed(y=torch.tensor([0, 1])), "one class `y`"),
    ],
)
def test_a_graph_that_cannot_be_trained_on_is_named(item, message):
    with pytest.raises(InputError, match=f"^graph 1: .*{message}"):
        check_graphs([graph(3, []), item])


def test_one_class_is_refused():
    with pytest.raises(InputError, match=r"one class only: .*3 graphs of class 1"):
        check_classes([graph(2, [], y=1)] * 3)
