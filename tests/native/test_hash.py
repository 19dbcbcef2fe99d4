"""The hash of the core's tables, alone."""


def test_texts_cannot_be_chosen_so_that_they_collide(build, run):
    """The hash of tables is SipHash; a pattern that undid itself for every seed does so no more."""
    done = run(build("hash", "address,undefined"), "300")
    assert done.returncode == 0, done.stdout + done.stderr
