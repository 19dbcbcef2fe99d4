"""`routerd manage` without a router: names that are no attributes."""

from typing import Any

import pytest

from routerd.cli.manage import Ask, unknown


class Attributes:
    """An agent whose links have two attributes, of which none is set."""

    @staticmethod
    def call(operation: str, **_: Any) -> dict[str, list[str]]:
        """Return the attributes of each type."""
        assert operation == "GET-ATTRIBUTES"
        return {"org.apache.qpid.dispatch.router.link": ["linkName", "peer"]}


@pytest.mark.parametrize("entity_type", ["link", None])
def test_a_name_in_a_query_that_is_no_attribute(entity_type: str | None) -> None:
    """An attribute that no entity has set is one all the same."""
    agent: Any = Attributes()
    near, far = unknown(agent, Ask("query", ("linkName", "peer", "linkNme", "colour"), entity_type), [{}])
    assert near == "there is no attribute 'linkNme'; did you mean linkName?"
    command = "routerd manage get-attributes" + (" --type link" if entity_type else "")
    assert far == f"there is no attribute 'colour'; `{command}` names them all"
