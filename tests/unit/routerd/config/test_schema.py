"""The entity declarations are complete and can be read back."""

from pathlib import Path

import pytest

from routerd.config import parse
from routerd.config.entities.schema import ENTITY_TYPES, entity_type

DOCUMENT = Path(__file__).parents[4] / "docs" / "configuration.md"


def test_names_with_and_without_prefix() -> None:
    address = entity_type("address")
    assert address is not None
    for name in ("router.config.address", "org.apache.qpid.dispatch.router.config.address"):
        assert entity_type(name) is address
    assert entity_type("org.apache.qpid.dispatch.ssl-profile") is entity_type("sslProfile") is not None
    assert entity_type("router.link") is None


@pytest.mark.parametrize("type_", ENTITY_TYPES, ids=lambda type_: type_.short_name)
def test_every_attribute_is_described(type_: object) -> None:
    """Descriptions are sentences, defaults lie within their bounds, enum defaults are among the choices."""
    assert hasattr(type_, "attributes")
    for attribute in type_.attributes.values():
        assert attribute.description.endswith("."), attribute.name
        if attribute.kind == "enum" and attribute.default is not None:
            assert attribute.default in attribute.choices
        if attribute.kind == "integer" and attribute.default and attribute.minimum is not None:
            assert attribute.minimum <= attribute.default


@pytest.mark.parametrize("spelling", ["conf", "json", "toml"])
def test_examples_in_the_document_load(spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same router is written three times, and each of them starts, on a machine with one CPU, too."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    _, _, section = DOCUMENT.read_text(encoding="utf-8").partition(f"### .{spelling}\n")
    example = section.split("```")[1].partition("\n")[2]
    config = parse(example, f"router.{spelling}")
    assert config.count == 5
    assert (config.router.id, config.router.workers) == ("Router.A", 2)
    assert (config.listeners[0].idle_timeout_seconds, config.addresses[1].priority) == (60, 9)
