"""Files that want to run something, to fill the memory, or to crash the process."""

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier
from tests.io.helpers import LABELS, X, edit_schema, fitted, members_of, write_members

from vicinal import LocalClassifier, PrunedTreeClassifier, SpacePartitioningClassifier
from vicinal.io import ModelFileError, info, load, save
from vicinal.io._archive import read_members

pytest.importorskip("skops")

ROOT = Path(__file__).parents[2]
MARKER = "VICINAL_WAS_FOOLED"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    model = fitted(SpacePartitioningClassifier(n_regions=2, n_init=1, random_state=0))
    return save(model, tmp_path_factory.mktemp("good") / "model.vicinal")


@pytest.fixture
def model_file(good, tmp_path):
    path = tmp_path / "model.vicinal"
    path.write_bytes(good.read_bytes())
    return path


class Bomb:
    def __reduce__(self):
        return exec, (f"import os; os.environ[{MARKER!r}] = '1'",)


@pytest.fixture(autouse=True)
def nothing_runs():
    os.environ.pop(MARKER, None)
    yield
    assert MARKER not in os.environ


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path)
    assert str(path) in str(caught.value)


# --- not a model ---


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"not a model", pickle.dumps(Bomb()), b"\x80\x04." * 10, bytes(10_000)],
    ids=["empty", "PK", "text", "pickle", "opcodes", "zeros"],
)
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "model.vicinal"
    path.write_bytes(content)
    refused(path, "no zip archive|cut short")
    with pytest.raises(ModelFileError):
        info(path)


def test_plain_skops_files_and_other_zips_are_refused(tmp_path):
    import skops.io

    path = tmp_path / "model.skops"
    skops.io.dump(DecisionTreeClassifier().fit(X, LABELS), path)
    refused(path, "no stamp")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "<xml/>")
    refused(path, "unexpected part 'word/document.xml'")


def test_changed_contents_do_not_match_the_checksum(model_file):
    members = members_of(model_file)
    name = next(name for name in members if name.endswith(".npy"))
    members[name] = members[name][:-1] + bytes([members[name][-1] ^ 1])
    refused(write_members(model_file, members, digest=False), "checksum is wrong")


def test_later_formats_ask_for_an_update(model_file):
    members = members_of(model_file)
    stamp = json.loads(members["vicinal.json"])
    stamp["format_version"] = 2
    members["vicinal.json"] = json.dumps(stamp).encode()
    refused(write_members(model_file, members), "update vicinal")


# --- names, sizes, arrays ---


@pytest.mark.parametrize("name", ["../escape.npy", "/etc/passwd", "a\\b.npy", "x.py", "é.npy"])
def test_strange_names_are_refused(model_file, name):
    refused(write_members(model_file, {**members_of(model_file), name: b""}), "unexpected part")


def test_parts_of_the_same_name_are_refused(model_file):
    with zipfile.ZipFile(model_file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("schema.json", "{}")
    refused(model_file, "same name")


def test_other_packings_are_refused(model_file):
    write_members(model_file, members_of(model_file), compression=zipfile.ZIP_LZMA)
    refused(model_file, "unknown way")


def test_zip_bombs_are_refused_before_they_are_unpacked(model_file, monkeypatch):
    monkeypatch.setattr("vicinal.io._archive.FREE_BYTES", 2**20)
    members = {**members_of(model_file), "0.npy": bytes(2**24)}
    write_members(model_file, members, digest=False, compression=zipfile.ZIP_DEFLATED)
    assert model_file.stat().st_size < 2**16
    refused(model_file, "zip bomb")


def test_bombs_inside_sparse_matrices_are_refused(model_file, monkeypatch):
    monkeypatch.setattr("vicinal.io._archive.FREE_BYTES", 2**20)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=zipfile.ZIP_DEFLATED) as inner:
        inner.writestr("data.npy", bytes(2**24))
    members = {**members_of(model_file), "0.npz": buffer.getvalue()}
    refused(write_members(model_file, members), "zip bomb")


def test_honest_constant_arrays_are_stored_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("vicinal.io._archive.FREE_BYTES", 2**12)
    model = LocalClassifier(n_neighbors=20, metric="euclidean").fit(X, LABELS)
    model.zeros_ = np.zeros(10**6)
    assert np.array_equal(load(save(model, tmp_path / "model.vicinal")).zeros_, model.zeros_)


def array_bytes(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def test_arrays_of_objects_are_refused(model_file):
    poison = array_bytes(np.array([Bomb()], dtype=object), allow_pickle=True)
    members = members_of(model_file)
    name = next(name for name in members if name.endswith(".npy"))
    refused(write_members(model_file, {**members, name: poison}), "holds Python objects")


def test_headers_that_ask_for_more_than_is_there_are_refused(model_file):
    header = array_bytes(np.zeros(8)).replace(b"(8,), }", b"(800000000000,), }", 1)
    refused(write_members(model_file, {**members_of(model_file), "0.npy": header}), "as long as")


def test_members_are_checked_one_by_one():
    with pytest.raises(zipfile.BadZipFile):
        read_members(b"PK\x05\x06")


# --- types ---


def node(loader, module, name, **content):
    return {"__loader__": loader, "__module__": module, "__class__": name, "__id__": 1, **content}


TEXT = node("JsonNode", "builtins", "str", content='"echo"', is_json=True)
ARGUMENTS = node("TupleNode", "builtins", "tuple", content=[TEXT])
EMPTY = node(
    "DictNode",
    "builtins",
    "dict",
    content={},
    key_types=node("ListNode", "builtins", "list", content=[]),
)
KEY = node("ListNode", "builtins", "list", content=[node("TypeNode", "os", "system")])

POISON = {
    "function": node("FunctionNode", "os", "system"),
    "type": node("TypeNode", "builtins", "eval"),
    "object": node("ObjectNode", "subprocess", "Popen", content=EMPTY),
    "constructor": node("ConstructorFromReduceNode", "subprocess", "Popen", content=ARGUMENTS),
    "constructor of a trusted class": node(
        "ConstructorFromReduceNode", "vicinal.local._local_classifier", "LocalClassifier",
        content=ARGUMENTS,
    ),
    "list": node("ListNode", "os", "system", content=[TEXT]),
    "dictionary": node("DictNode", "os", "system", content={}, key_types=EMPTY["key_types"]),
    "dictionary key": node("DictNode", "builtins", "dict", content={"echo": TEXT}, key_types=KEY),
    "array type": node("NdArrayNode", "os", "system", type="numpy", file="schema.json"),
    "partial": node(
        "PartialNode", "functools", "partial",
        content={"func": TEXT, "args": ARGUMENTS, "kwds": EMPTY, "namespace": EMPTY},
    ),
    "operator": node("OperatorFuncNode", "operator", "methodcaller", attrs=ARGUMENTS),
    "method": node(
        "MethodNode", "builtins", "str", content={"func": "format", "obj": TEXT}
    ),
    "loss": node("LossNode", "os", "system", content=EMPTY, __reduce__={"args": ARGUMENTS}),
    "tree": node("TreeNode", "os", "system", content=EMPTY, __reduce__={"args": ARGUMENTS}),
    "module of ours, not a model": node("ObjectNode", "vicinal.cli", "main", content=EMPTY),
    "function of ours": node("ObjectNode", "vicinal.partition._stages", "gate_scores"),
    "borrowed class of ours": node("ObjectNode", "vicinal.partition._cascade", "Any"),
    "random generator": node(
        "RandomGeneratorNode", "numpy.random._generator", "Generator",
        content={
            "bit_generator": {"content": {"bit_generator": {"content": '"seed"'}}},
            "seed_seq": EMPTY,
        },
    ),
    "unknown loader": node("EvalNode", "builtins", "str"),
    "no loader": {"__loader__": None, "__module__": "os", "__class__": "system"},
}  # fmt: skip


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_nodes_that_would_run_something_are_refused(model_file, poison):
    def insert(schema):
        schema["content"]["content"]["poison"] = poison
        keys = schema["content"]["key_types"]["content"]
        keys.append(node("TypeNode", "builtins", "str"))

    edit_schema(model_file, insert)
    refused(model_file, "not trusted|its schema")


@pytest.mark.parametrize("protocol", [0, 1, True, "2", None, 10**6])
def test_other_protocols_are_refused(model_file, protocol):
    edit_schema(model_file, lambda schema: schema.update(protocol=protocol))
    refused(model_file, "protocol")


@pytest.mark.parametrize("name", ["__class__", "__reduce_ex__", "__setstate__"])
def test_special_attributes_are_refused(model_file, name):
    def insert(schema):
        schema["content"]["content"][name] = TEXT
        schema["content"]["key_types"]["content"].append(node("TypeNode", "builtins", "str"))

    edit_schema(model_file, insert)
    refused(model_file, "special attributes")


def test_endless_nesting_is_refused(model_file):
    members = members_of(model_file)
    members["schema.json"] = b'{"protocol": 2, "content": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    refused(write_members(model_file, members), "damaged or no model file")


def test_missing_arrays_are_refused(model_file):
    members = members_of(model_file)
    members.pop(next(name for name in members if name.endswith(".npy")))
    refused(write_members(model_file, members), "damaged or no model file")


# --- indices that compiled code would follow ---


def tree_arrays(members):
    """Names of the arrays that hold nodes of decision trees."""
    for name, content in members.items():
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(content))
            if array.dtype.names and "left_child" in array.dtype.names:
                yield name, array


@pytest.mark.parametrize(
    ("column", "value", "match"),
    [
        ("left_child", 10**6, "child out of range"),
        ("right_child", 0, "child out of range"),
        ("feature", 5, "feature that it was not given"),
        ("feature", -3, "feature that it was not given"),
    ],
)
def test_trees_that_lead_out_of_bounds_are_refused(tmp_path, column, value, match):
    path = save(fitted(PrunedTreeClassifier(cv=3, random_state=0)), tmp_path / "model.vicinal")
    members = members_of(path)
    (name, nodes), *_ = tree_arrays(members)
    nodes[column][0] = value
    refused(write_members(path, {**members, name: array_bytes(nodes)}), match)


def test_sparse_matrices_with_wrong_indices_are_refused(tmp_path):
    rows = sparse.csr_matrix(np.where(X > 0, X, 0.0))
    model = LocalClassifier(n_neighbors=30, metric="euclidean").fit(rows, LABELS)
    path = save(model, tmp_path / "model.vicinal")
    rows.indices[0] = 10**6
    buffer = io.BytesIO()
    sparse.save_npz(buffer, rows)
    members = members_of(path)
    for name in [name for name in members if name.endswith(".npz")]:
        members[name] = buffer.getvalue()
    refused(write_members(path, members), "damaged or no model file")


# --- mutations ---

FUZZ = """
import io, json, os, random, sys, warnings, zipfile
from pathlib import Path

import numpy as np
from tests.io.helpers import X, answers, members_of, same, write_members
from vicinal.io import ModelFileError, info, load

warnings.simplefilter("ignore")
n, paths = int(sys.argv[1]), [Path(path) for path in sys.argv[2:]]
random.seed(0)
victim = paths[0].with_suffix(".victim")

watched, is_watching = [], False
RUNS = ("os.", "subprocess.", "socket.", "shutil.", "ctypes.", "pickle.", "marshal.", "exec")
def watch(event, arguments):
    if not is_watching or event in ("os.listdir", "os.scandir"):
        return
    if event.startswith(RUNS) or (event == "open" and "r" not in str(arguments[1])):
        watched.append((event, repr(arguments)[:200]))
sys.addaudithook(watch)

def flipped():
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 8])):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)

def cut():
    return data[: random.randrange(len(data))]

def spliced():
    at, length = random.randrange(len(data)), random.randrange(1, 64)
    middle = random.choice([b"", os.urandom(length), data[:length]])
    return data[:at] + middle + data[at + random.choice([0, length]) :]

NAMES = ["os", "system", "builtins", "eval", "subprocess", "Popen", "FunctionNode", "MethodNode",
         "ConstructorFromReduceNode", "TypeNode", "ListNode", "pickle", "loads", "numpy", "object",
         "__main__", "vicinal.cli", "main", "vicinal.local._base", "BaseLocal", "sys", "exit", ""]

def rewritten():
    '''Another name, number or shape somewhere in the schema, with the right checksum.'''
    changed = dict(members)
    if random.random() < 0.3:
        name = random.choice([name for name in members if name.endswith(".npy")])
        content = bytearray(members[name])
        content[random.randrange(len(content))] = random.randrange(256)
        changed[name] = bytes(content)
    else:
        schema = json.loads(members["schema.json"])
        places, pending = [], [schema]
        while pending:
            part = pending.pop()
            items = part.items() if isinstance(part, dict) else enumerate(part)
            for key, value in list(items):
                places.append((part, key))
                if isinstance(value, (dict, list)):
                    pending.append(value)
        for part, key in random.sample(places, random.choice([1, 1, 2, 3])):
            part[key] = random.choice(
                [random.choice(NAMES), random.randrange(-9, 10**9), None, [], {}, random.random()]
            )
        changed["schema.json"] = json.dumps(schema).encode()
    write_members(victim, changed)
    return victim.read_bytes()

assert [load(path) for path in paths]  # everything a load imports is imported
is_watching = True
os.system("true")
is_watching = False
assert watched.pop()[0] == "os.system"

n_loaded = {flipped: 0, cut: 0, spliced: 0, rewritten: 0}
for i in range(n):
    if i % (n // len(paths)) == 0:
        path = paths[i // (n // len(paths))]
        data, members, said = path.read_bytes(), members_of(path), answers(load(path))
    kind = list(n_loaded)[i % 4]
    victim.write_bytes(kind())
    is_watching = True
    try:
        model = load(victim)
    except ModelFileError:
        model = None
    try:
        info(victim)
    except ModelFileError:
        pass
    is_watching = False
    if model is not None:
        n_loaded[kind] += 1
        # Damage never passes: without a new checksum, only bytes that mean nothing may differ.
        if kind is not rewritten and not same(answers(model), said):
            print("changed", kind.__name__, i)
print(*n_loaded.values(), watched)
"""


def test_a_thousand_mutations_run_nothing_and_raise_one_error(good, tmp_path):
    local = save(
        fitted(LocalClassifier(n_neighbors=20, metric="euclidean")), tmp_path / "local.vicinal"
    )
    partition = tmp_path / "partition.vicinal"
    partition.write_bytes(good.read_bytes())
    result = subprocess.run(
        [sys.executable, "-c", FUZZ, "1000", str(partition), str(local)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    *n_loaded, watched = result.stdout.strip().split(" ", 4)
    assert watched == "[]"
    # Of random bytes, only those in fields that mean nothing (times, comments) may pass.
    n_flipped, n_cut, n_spliced, n_rewritten = map(int, n_loaded)
    assert n_cut == 0
    assert max(n_flipped, n_spliced) < 75
    assert n_rewritten < 125
