"""The examples for other tools: what they ask of the pipeline exists. The tools themselves are not installed."""

import re
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import yaml
from click import Context

from pipeline.cli import pipeline
from pipeline.output.columns import TABLES

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


class Dag:
    """Stands for Airflow's."""

    def __init__(self, name: str, schedule: str, **_: Any) -> None:
        assert re.fullmatch(r"[a-z_]+", name)
        assert len(schedule.split()) == 5

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class Task:
    """Stands for Airflow's; it keeps the commands, and what follows what."""

    commands: ClassVar[dict[str, list[str]]] = {}
    order: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, task_id: str, bash_command: str, **_: Any) -> None:
        self.name = task_id
        Task.commands[task_id] = bash_command.split()

    def __rshift__(self, other: "Task") -> "Task":
        Task.order.append((self.name, other.name))
        return other


def test_the_dag_has_commands_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """With options that they take; results are checked after they were made."""
    names = {"airflow.sdk": {"DAG": Dag}, "airflow.providers.standard.operators.bash": {"BashOperator": Task}}
    for name, held in names.items():
        module = ModuleType(name)
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, name, module)
    runpy.run_path(str(EXAMPLES / "airflow_dag.py"))
    assert Task.order == [("run", "check")]
    assert Task.commands.keys() == {"run", "check", "report"}
    for name, (program, group, command, *words) in Task.commands.items():
        assert (program, group, command) == ("routerd", "pipeline", name)
        context = pipeline.commands[command].make_context(command, words, parent=Context(pipeline))
        assert "/var/lib/routerd/results" in context.params.values()


def test_the_sources_are_tables_of_results() -> None:
    """Tables and columns have the names that runs write."""
    [source] = yaml.safe_load((EXAMPLES / "dbt_sources.yml").read_text())["sources"]
    assert "/current/{name}/*.parquet" in source["config"]["meta"]["external_location"]
    for table in source["tables"]:
        declared = {column.name: column.type for column in TABLES[table["name"]].columns}
        assert {column["name"] for column in table.get("columns", ())} <= declared.keys()
        if at := table.get("config", {}).get("loaded_at_field"):
            assert declared[at] == "timestamp"
