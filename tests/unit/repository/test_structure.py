"""Limits on the structure of the package: no import cycles, small folders and files, reasons for imports within functions.

`test_layers` checks imports between the units under ``craton``; this module checks imports between all their modules.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tracked import ROOT, files, texts

PYTHON = ROOT / "python"

MOST_FILES = 25
MOST_LINES = 600
STARTED = (
    "with the first plan that runs, the first reader or the first function: programs on small frames never need it"
)
SESSIONS = "sessions, actors and stores are imported when a program has one"
HOSTS = "each host, plot or library of others is imported by who asks for it"
COMMAND = "a command imports what it runs"
#: Imports within functions, by module: the reason, and the imported modules. Avoiding a cycle is not an accepted reason.
LATE = {
    "accelerate.ipython": (HOSTS, "profiling"),
    "actor.collective": (SESSIONS, "comm"),
    "actor.wire.bulk": ("UCX is loaded if it was chosen", "comm comm.ucx_library"),
    "actor.wire.shared": (SESSIONS, "config craton serialize.decoding store store.process"),
    "cluster": (SESSIONS, "cluster.sessions"),
    "cluster.sessions": (
        SESSIONS,
        "actor cluster.hosts.base cluster.hosts.dask cluster.hosts.local cluster.hosts.ray cluster.placing "
        "cluster.supervisor cluster.transfer comm config schedule.inline schedule.memory_accounting",
    ),
    "comm": ("the libraries of communicators are optional", "comm.ucx_library"),
    "comm.base": ("tables need pyarrow, which programs of numbers and arrays do not", "comm.tables"),
    "engine": (STARTED, "engine.repeated_runs engine.result_cache engine.sharing"),
    "engine.bounded": (STARTED, "cluster.sessions engine.tiled lower.tiled.planner schedule.inline"),
    "engine.choice": (STARTED, "engine.tiled"),
    "engine.kernel_process": (STARTED, "remote.side_output"),
    "engine.run": (STARTED, "engine.kernel_process lower lower.decoded"),
    "lower": (STARTED, "lower.single_node"),
    "__main__": (COMMAND, "accelerate.install accelerate.run cluster profiling"),
    "memory": (STARTED, "engine.result_cache"),
    "ml.inputs": (STARTED, "ml.plans"),
    "pandas.core.data_checks": (STARTED, "kernel.run"),
    "pandas.core.execute": (
        STARTED,
        "engine.evaluations engine.kernel_process pandas.core.joined.categories pandas.core.joined.filtered pandas.core.joined.mapped "
        "pandas.core.joined.taking",
    ),
    "pandas.core.native": (STARTED, "engine.kernel_process"),
    "pandas.core.stack": ("code that runs with the globals of pandas' modules", "pandas.core.stack"),
    "pandas.deferred": (STARTED, "pandas.groupby.moving pandas.udf.groups pandas.window.moving"),
    "pandas.functions": (STARTED, "pandas.computation.query"),
    "pandas.groupby.collected": (STARTED, "pandas.udf.groups"),
    "pandas.groupby.groupby": (STARTED, "pandas.udf.groups"),
    "pandas.groupby.grouping": (
        STARTED,
        "pandas.groupby.groupby pandas.groupby.in_memory pandas.groupby.keys pandas.groupby.times.resampled_rows",
    ),
    "pandas.indexing.frame_columns": (STARTED, "pandas.indexing.setting"),
    "pandas.indexing.indexers": (STARTED, "pandas.indexing.setting"),
    "pandas.indexing.selection": (STARTED, "pandas.computation.query pandas.indexing.setting"),
    "pandas.io.persisting": (STARTED, "engine.evaluations engine.result_cache engine.run"),
    "pandas.io.sinks": (
        STARTED,
        "lower.file_versions pandas.io.memory_data pandas.io.parquet_engine pandas.io.atomic_writes "
        "pandas.io.remote_targets pandas.io.sink_arrow pandas.io.sink_text",
    ),
    "pandas.reductions.counting": (
        STARTED,
        "pandas.reductions.needed_columns pandas.reductions.statistics pandas.values.lists.text_objects",
    ),
    "pandas.reductions.reductions": (
        STARTED,
        "pandas.reductions.needed_columns pandas.reductions.row_reductions pandas.reductions.statistics",
    ),
    "pandas.reductions.statistics": (STARTED, "engine.result_cache"),
    "pandas.reductions.whole_columns": (
        STARTED,
        "pandas.reductions.needed_columns pandas.reductions.row_reductions",
    ),
    "pandas.printing": (STARTED, "pandas.values.lists.columns"),
    "pandas.reshape.construction": (STARTED, "pandas.reshape.concatenation"),
    "pandas.reshape.exploding": (STARTED, "pandas.values.lists.columns"),
    "pandas.reshape.alignment": (
        STARTED,
        "pandas.reshape.combining pandas.reshape.comparing pandas.reshape.reindexing pandas.values.filling",
    ),
    "pandas.reshape.relational": (
        STARTED,
        "pandas.indexing.row_labels pandas.reductions.needed_columns pandas.reshape.concatenation pandas.reshape.duplicates "
        "pandas.reshape.merges.merge_positions "
        "pandas.reshape.merges.merging pandas.reshape.pivoting "
        "pandas.reshape.reshaping pandas.reshape.sort_keys pandas.reshape.sorting",
    ),
    "pandas.reshape.relational_calls": (STARTED, "pandas.reshape.sorting"),
    "pandas.reshape.relational_series": (
        STARTED,
        "pandas.indexing.row_labels pandas.reshape.duplicates pandas.reshape.sort_keys pandas.reshape.sorting "
        "pandas.values.whole_results",
    ),
    "pandas.udf.calls": (STARTED, "remote.parallel_calls"),
    "pandas.udf.methods": (STARTED, "pandas.udf.elementwise pandas.udf.named pandas.udf.rows"),
    "pandas.values.times.dates": (STARTED, "pandas.values.batches pandas.values.whole_results"),
    "pandas.values.methods": (
        STARTED,
        "pandas.values.arithmetic pandas.values.by_label pandas.values.casting pandas.values.clipping "
        "pandas.values.comparison pandas.values.filling pandas.values.lists.text_objects pandas.values.mapping "
        "pandas.values.membership pandas.values.whole_results",
    ),
    "pandas.values.operands": (STARTED, "pandas.values.batches"),
    "pandas.values.operators": (
        STARTED,
        "pandas.values.arithmetic pandas.values.column_operators pandas.values.comparison pandas.values.elementwise "
        "pandas.values.filling pandas.values.products",
    ),
    "pandas.values.text.string_functions": (STARTED, "pandas.values.text.regex_engines pandas.values.text.regexes"),
    "pandas.values.text.strings": (
        STARTED,
        "kernel.run pandas.values.batches pandas.values.comparison pandas.values.lists.accessor "
        "pandas.values.lists.all_matches pandas.values.lists.indicators pandas.values.lists.splitting pandas.values.lists.text_objects "
        "pandas.values.text.regex_engines pandas.values.text.regexes "
        "pandas.values.whole_results",
    ),
    "pandas.values.ufuncs": (STARTED, "pandas.values.batches"),
    "pandas.window.windows": (
        STARTED,
        "pandas.reductions.row_reductions pandas.reductions.statistics pandas.values.arithmetic pandas.values.constants "
        "pandas.values.whole_results pandas.window.interpolation",
    ),
    "pipeline.conversion": (
        "a step's own environment may have another version of pandas than Craton's classes need",
        "pandas",
    ),
    "pipeline.pandas_tables": ("as above", "serialize.pandas_frames"),
    "pipeline.runs.runners": (SESSIONS, "pipeline.runs.step_hosts"),
    "pipeline.sources.files": (STARTED, "pandas"),
    "plan": (STARTED, "plan.functions"),
    "plan.build": (STARTED, "plan.functions.exact"),
    "profiling.recording": (HOSTS, "profiling.drawing profiling.page"),
    "serialize.torch_tensors": (HOSTS, "craton"),
    "spmd.environment": (STARTED, "spmd.frames.reading"),
    "spmd.frames.parts": (STARTED, "pandas"),
    "spmd.moving": (STARTED, "pandas"),
    "spmd.rank": (SESSIONS, "store.objects"),
    "store": (SESSIONS, "store.objects"),
    "store.store": (SESSIONS, "store.forked"),
}

#: The packages of the front end, from top to bottom. Each imports only packages below it.
FRONT_END = ["", "io", "reshape", "groupby", "window", "udf", "indexing", "computation", "reductions", "values", "core"]


def modules() -> dict[str, Path]:
    """The modules of the package and their files."""
    found = {}
    for path in sorted((PYTHON / "craton").rglob("*.py")):
        parts = path.relative_to(PYTHON).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> Iterator[tuple[str, bool]]:
    """The modules of the package that a file imports at run time, and whether each import is within a function."""

    def walk(node: ast.AST, within: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(node, ast.If) and child in node.body and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            if isinstance(child, ast.ImportFrom) and (child.module or "").partition(".")[0] == "craton":
                for alias in child.names:
                    name = f"{child.module}.{alias.name}"
                    yield (name if name in known else str(child.module)), within
            elif isinstance(child, ast.Import):
                yield from ((alias.name, within) for alias in child.names if alias.name.partition(".")[0] == "craton")
            inner = within or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from walk(child, inner)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), False)


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components: groups of nodes, each of which can be reached from all others of its group."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in order:
            visit(node)
    return found


def test_no_module_reaches_itself() -> None:
    known = modules()
    graph = {name: {other for other, _ in imported(path, known) if other != name} for name, path in known.items()}
    assert cycles(graph) == []


def test_cycles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}) == [["b", "c"]]


def test_packages_of_the_front_end_point_down() -> None:
    known, found = modules(), []

    def package(name: str) -> str:
        parts = name.split(".")
        return parts[2] if len(parts) > 3 or (len(parts) == 3 and parts[2] in FRONT_END) else ""

    for name, path in known.items():
        if name.startswith("craton.pandas"):
            for other, _ in imported(path, known):
                if other.startswith("craton.pandas") and FRONT_END.index(package(other)) < FRONT_END.index(
                    package(name)
                ):
                    found.append(f"{name} imports {other}")
    assert found == []


def test_imports_within_functions_have_a_reason() -> None:
    known = modules()
    late = {
        name.removeprefix("craton."): {
            other.removeprefix("craton.") for other, within in imported(path, known) if within
        }
        for name, path in known.items()
    }
    listed = {name: set(others.split()) for name, (_, others) in LATE.items()}
    assert {name: others for name, others in late.items() if others} == listed


def test_folders_are_small() -> None:
    sources = [path for path in files() if path.suffix in (".py", ".rs", ".pyi") and path.name != "__init__.py"]
    count = Counter(str(path.parent.relative_to(ROOT)) for path in sources)
    large = {folder: n for folder, n in count.items() if n > MOST_FILES}
    assert large == {}, "divide the folder by what its files are about"


def test_files_are_short() -> None:
    lines = {name: len(text.splitlines()) for name, text in texts(".py", ".pyi", ".rs")}
    long = {name: n for name, n in lines.items() if n > MOST_LINES}
    assert long == {}, "divide the file where the idea changes"
