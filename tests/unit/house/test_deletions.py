"""Whatever deletes, moves or overwrites files stands in a list, with what keeps it to our own files.

Two commands once deleted what users had put beside their results, and no test could know: each had asked only
whether our own files were gone. So every such call is found here by its name, and whoever adds one says why
it meets nothing but what we made.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.tree import OURS, ROOT, package, place, sources

DIRECTORIES = ("rmtree", "rmdir", "removedirs", "delete_dir", "delete_dir_contents", "delete_root_dir_contents")
FILES = ("unlink", "delete_file", "rename", "renames", "unlink_semaphore", "unlink_shared_memory")
CONTENT = ("truncate", "ftruncate", "write_text", "write_bytes", "open_output_stream", "copyfile", "copytree")
REMOVING = {*DIRECTORIES, *FILES, *CONTENT, "copy2"}
NATIVE = re.compile(r"(?<![\w.>])(?:shm_)?(?:unlink|unlinkat|rename|renameat2?|remove|rmdir|ftruncate)\s*\(|O_TRUNC")

# Function, and what is safe about it.
JUSTIFIED = {
    "bench/run.py show": "the file that --json names",
    "bench/targets.py _with_table": "within a temporary directory of its own",
    "bench/targets.py _one": "the same",
    "bench/targets.py _spawn": "the same",
    "core/rmr/managers/remembered.py Remembered.save": "the file of `applications`, if it was empty or ours",
    "core/rmr/active/snapshot.py Keeper.put": "a snapshot, known by its first line",
    "core/rmr/active/snapshot.py _File.__init__": "the same, half written",
    "core/rmr/active/snapshot.py _File.write": "the same",
    "core/rmr/active/snapshot.py _File.leave": "the same, half written",
    "pipeline/batch.py plan": "by Generation.write_text",
    "pipeline/generate/write.py generate": "in a directory that was empty",
    "pipeline/output/generations.py Generation.publish": "in a run of our own; and `current`, if it named a run",
    "pipeline/output/generations.py Generation.write_text": "a report or a plan that has our sign in it",
    "pipeline/output/directory.py Output.sweep": "names whose digits prove that this output gave them",
    "pipeline/output/directory.py Output.remove": "a directory in which every file is Spark's or ours by its name",
    "pipeline/output/directory.py Output.sign": "our marker, where there is none, or one with no words but ours",
    "pipeline/output/directory.py _unmake": "a directory that this process made, with nothing but our marker in it",
    "pipeline/output/days.py remove": "`current` that names a run, a report or plan with our sign, a bare marker",
    "pipeline/report/write.py report": "by Generation.write_text",
    "pipeline/scratch.py scratch": "the directory that this session made",
    "pipeline/scratch.py _remove_left": "one of a session, by name and marker, whose lock nobody holds",
    "pipeline/sharing.py Sharing.settle": "in the cache, an archive whose name is a digest of ours",
    "routerd/machine/daemon.py Daemon.serves": "/dev/null",
    "routerd/machine/daemon.py detach": "a pipe; and the file that --pid names",
    "routerd/recorder/clock.py LogClock._keep": "this router's file of when it was looked",
    "routerd/recorder/compacting.py put_together": "a hidden file of this router, which nobody reads",
    "routerd/recorder/files.py File.__init__": "the same",
    "routerd/recorder/files.py File.abandon": "the same",
    "routerd/recorder/files.py publish": "a name with a number that is not taken",
    "routerd/recorder/files.py remove_unfinished": "hidden files of this router's recorder that was killed",
    "routerd/recorder/former.py take_over": "files that say they are this router's, to names that are not taken",
    "routerd/recorder/former.py _left": "the same, of a recorder that was killed",
    "routerd/recorder/keeping.py Keeper._adopt": "a compacted file of this router whose rows others hold",
    "routerd/recorder/keeping.py Keeper._write_manifest": "this router's manifest",
    "routerd/recorder/keeping.py _remove": "files of this router in date=…/hour=…, as retention says",
    "routerd/recorder/keeping.py _remove_empty": "folders without anything in them",
    "routerd/recorder/recovery.py _recover": "a spool of this router that nobody holds, once it is a file",
    "routerd/recorder/spool.py Spool.__init__": "a hidden file of this router, which nobody reads",
    "routerd/recorder/spool.py Spool.remove": "the same",
    "routerd/supervise/flight.py Keeper._make_room": "this router's recordings, known by their names",
    "shm/memory/flight.py Taken.write": "a hidden file that it has just made",
    "shm/memory/segment.py Segments.unlink": "segments that this router made, under its lock",
    "shm/memory/segment.py Segments.close": "the same",
    "shm/memory/segment.py _map_new": "a segment that did not exist before",
    "shm/memory/segment.py remove_file": "a name that the caller knows for a router's",
    "shm/memory/snapshot_store.py clear": "snapshots below this router's prefix",
}


def changes(file: Path) -> Iterator[tuple[str, int]]:
    """Function and line of every call that may remove or overwrite something."""

    def walk(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = (*names, node.name)
        if isinstance(node, ast.Call) and _removes(node):
            yield ".".join(names), node.lineno
        for child in ast.iter_child_nodes(node):
            yield from walk(child, names)

    yield from walk(ast.parse(file.read_text()), ())


def _removes(call: ast.Call) -> bool:
    """By the name of what is called, and by its arguments where the name has other meanings."""
    function = call.func
    name = getattr(function, "attr", getattr(function, "id", ""))
    of = getattr(getattr(function, "value", None), "id", "")
    if name == "replace":  # not that of str, of datetime, or of structures
        return of == "os" or (len(call.args) == 1 and not call.keywords)
    if name == "move":
        return len(call.args) == 2
    if name == "remove":
        return of in ("os", "shutil")
    if name == "open":
        texts = [one.value for one in call.args if isinstance(one, ast.Constant)]
        modes = [one for one in texts if isinstance(one, str) and re.fullmatch("[rwxabt+]+", one)]
        return any("w" in one for one in modes) or "O_TRUNC" in ast.unparse(call)
    return name in REMOVING


def test_whatever_deletes_or_overwrites_is_justified() -> None:
    """A new place says in the list what keeps it to our own files; one that is gone leaves the list."""
    found: dict[str, str] = {}
    for file in sources(".py"):
        if package(file) in OURS:
            for name, line in changes(file):
                found.setdefault(f"{file.relative_to(ROOT)} {name}", place(file, line))
    new = [f"{where}: {what}" for what, where in found.items() if what not in JUSTIFIED]
    assert not new, "say in JUSTIFIED why these touch nothing of others:\n" + "\n".join(new)
    assert not JUSTIFIED.keys() - found.keys(), "these are gone"


def test_native_code_deletes_nothing() -> None:
    """Files are Python's to remove."""
    wrong = [
        f"{place(file, number)}: {line.strip()}"
        for file in sources(".pyx", ".pxd", ".pxi", ".h", ".c")
        if package(file) in OURS
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if NATIVE.search(line.partition("#")[0]) and not line.lstrip().startswith(("def ", "cdef ", "cpdef "))
    ]
    assert not wrong, "\n".join(wrong)
