"""The descriptors that a router begins with."""

import resource

import pytest

from routerd.machine.descriptors import LEAST, TooFewError, raise_limit


@pytest.mark.parametrize("hard", [64, LEAST - 1])
def test_too_few_files_for_the_router_itself_are_told(hard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, with the limit, what is needed and how to raise it; not as a traceback later."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (hard, hard))
    with pytest.raises(TooFewError, match=f"^{hard} files may be open.* needs {LEAST} .*LimitNOFILE"):
        raise_limit()


@pytest.mark.parametrize("hard", [LEAST, resource.RLIM_INFINITY])
def test_all_that_may_be_open_is_taken(hard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection is one."""
    taken: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (32, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: taken.append(limits))
    raise_limit()
    assert taken == [(hard, hard)]
