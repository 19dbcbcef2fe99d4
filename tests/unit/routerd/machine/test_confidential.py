"""Passwords from the environment: children are told those that they use, and inherit none."""

import pytest

from routerd.config import parse
from routerd.config.entities.transport import SslProfile
from routerd.machine.confidential import environment, resolved
from routerd.translate.identities import Identities
from routerd.translate.setup import blueprint

FILE = """
connector {
 name: broker
 host: broker.example
 saslUsername: u
 saslPassword: env:ROUTERD_PASSWORD_OF_A_TEST
}
"""


def test_no_child_inherits_a_password_whichever_starts_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The blueprint is enough: no child's set-up has been made of it yet."""
    monkeypatch.setenv("ROUTERD_PASSWORD_OF_A_TEST", "secret")
    made = blueprint(parse(FILE, "f.conf"), "1", [], [], Identities())
    assert "ROUTERD_PASSWORD_OF_A_TEST" not in environment()
    assert [one.connector.sasl_password for one in made.connecting] == ["pass:secret"]


@pytest.mark.parametrize("password", [None, "", "pass:x", "file:/x", "env:ROUTERD_NO_SUCH"])
def test_others_stay_as_they_are(password: str | None) -> None:
    """The process that uses a variable that is not set reports it."""
    profile = SslProfile(name="p", password=password)
    assert resolved(profile, "password") == profile
