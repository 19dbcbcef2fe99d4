"""The worker's C11 headers, alone."""

import pytest


@pytest.mark.parametrize("seed", range(3))
def test_scan_keeps_its_word(build, run, seed):
    """Every prefix of messages, of damaged ones and of noise: no step outside, no verdict taken back."""
    done = run(build("scan_fuzz", "address,undefined"), str(seed), "4000")
    assert done.returncode == 0, done.stdout + done.stderr
