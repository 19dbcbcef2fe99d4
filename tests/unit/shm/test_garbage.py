"""When the search for cyclic garbage stands still."""

import gc

from shm.contract.garbage import still


def test_nobody_collects_before_the_last_one_is_done() -> None:
    """Two threads may be in here at once, whichever leaves first."""
    first, second = still(), still()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_an_error_changes_nothing() -> None:
    try:
        with still():
            assert not gc.isenabled()
            raise ValueError
    except ValueError:
        assert gc.isenabled()
