"""C11 headers of workers and of the core, alone."""

import pytest


@pytest.mark.parametrize("seed", range(3))
def test_scan_keeps_its_word(build, run, seed):
    """Every prefix of messages, of damaged ones and of noise: no step outside, no verdict taken back."""
    done = run(build("scan_fuzz", "address,undefined"), str(seed), "4000")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(3))
def test_router_annotations_keep_inside(build, run, seed):
    """In every form, in pieces, damaged, and with a content header that lies."""
    done = run(build("annotations_fuzz", "address,undefined"), str(seed), "6000")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(3))
def test_route_table_keys_keep_inside(build, run, seed):
    """Every prefix of messages with and without a route table's key, in order and damaged."""
    done = run(build("rmr_key_fuzz", "address,undefined"), str(seed), "3000")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(3))
def test_rmr_frames_there_and_back(build, run, seed):
    """Frames become messages and the same frames again; wrong, cut off or damaged ones stay inside."""
    done = run(build("rmr_wire_fuzz", "address,undefined"), str(seed), "3000")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(2))
def test_plain_records_of_route_tables_keep_inside(build, run, seed):
    """Words of tables and noise, from anywhere: whole records are taken, each number is one of a name."""
    done = run(build("records_fuzz", "address,undefined"), str(seed), "300")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(3))
def test_the_data_lane_keeps_inside(build, run, seed):
    """Frames cut off and damaged, states and maps: nothing outside is read, and what is written is read again."""
    done = run(build("lane_fuzz", "address,undefined"), str(seed), "2000")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(3))
def test_waiting_octets_come_out_as_they_went_in(build, run, seed):
    """Held ones in pieces, and lent ones between others: each once, in order, and no buffer is left or freed twice."""
    done = run(build("waiting", "address,undefined"), str(seed), "40")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(3))
def test_two_ends_of_a_session_agree(build, run, seed):
    """Deliveries in pieces between two sessions whose numbers wrap."""
    done = run(build("lane_ends", "address,undefined"), str(seed), "100")
    assert done.returncode == 0, done.stdout + done.stderr


def test_texts_cannot_be_chosen_so_that_they_collide(build, run):
    """The hash of tables is SipHash; a pattern that undid itself for every seed does so no more."""
    done = run(build("hash", "address,undefined"), "300")
    assert done.returncode == 0, done.stdout + done.stderr
