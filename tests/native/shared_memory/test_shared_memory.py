"""The C11 headers of the shared-memory contract, alone: races, lost wake-ups, damage."""

import pytest

PAIRS = ["shared_memory/ring_pair", "shared_memory/arena_pair"]


@pytest.mark.parametrize("program", PAIRS)
def test_threads_do_not_race(build, run, program):
    """ThreadSanitizer finds nothing in 200,000 records or 1,500 growing messages; each arrives intact."""
    done = run(build(program, "thread"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("twin", ["BROKEN_RELEASE", "BROKEN_ACQUIRE", "BROKEN_ATOMIC"])
@pytest.mark.parametrize("program", PAIRS)
def test_sanitizer_catches_the_broken_twin(build, run, program, twin):
    """Without release stores, acquire loads or atomic indices the same program is reported."""
    done = run(build(program, "thread", twin))
    assert "WARNING: ThreadSanitizer: data race" in done.stderr
    assert done.returncode != 0


@pytest.mark.parametrize("capacity", [2, 16, 1024])
def test_processes_lose_no_record_and_no_wake_up(build, run, capacity):
    """Two processes exchange 200,000 records with sleeping consumers; who is not woken hangs and fails."""
    done = run(build("shared_memory/ring_pair", "", "PROCESSES", f"CAPACITY={capacity}"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_processes_stream_messages_through_a_small_arena(build, run):
    """A reader in another process sees every byte of messages longer than the arena; all blocks come back."""
    done = run(build("shared_memory/arena_pair", "", "PROCESSES"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_outbox_keeps_everything_in_order(build, run):
    """A full ring delays records, it neither drops nor swaps them."""
    done = run(build("shared_memory/outbox", "address,undefined"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_content_header_forgets_its_former_message(build, run):
    """Every octet that describes a message is reset, in a head block that is used again and in one that is kept."""
    done = run(build("shared_memory/content", "address,undefined"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_sanitizer_catches_a_trusting_reader(build, run):
    """The target `memory` of tests/fuzz could fail: following an unchecked index is reported."""
    done = run(build("shared_memory/broken_reader", "address,undefined"))
    assert "AddressSanitizer" in done.stderr
    assert done.returncode != 0
