"""SASL with users of the router's own."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import proton
import pytest
import sasl_users
from running import LONG, Configuration, RunningRouter, Since
from secured import Credentials, attempt

from routerd.reaching import ClientError, Place, connect

pytestmark = pytest.mark.skipif(
    not proton.SASL.extended(),
    reason="the AMQP engine was built without Cyrus SASL: install libsasl2-dev, then make clean-all build",
)

LISTENER = "host: 127.0.0.1\n port: 0\n authenticatePeer: {}\n saslMechanisms: {}"


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    """Listeners: users only; users or nobody; users with encryption."""
    folder = tmp_path_factory.mktemp("sasl")
    sasl_users.make(folder, alice="secret", bob="hidden")
    settings = f"workers: 1\n saslConfigDir: {folder}\n saslConfigName: routerd"
    users = LISTENER.format("yes", "PLAIN SCRAM-SHA-256")
    either = LISTENER.format("no", "ANONYMOUS PLAIN")
    encrypted = f"{users}\n requireEncryption: yes"
    sections = f"listener {{\n {either}\n}}\nlistener {{\n {encrypted}\n}}\n"
    return Configuration(settings, users, sections)


@pytest.fixture(autouse=True)
def since(router: RunningRouter) -> Iterator[Since]:
    """What the test has caused."""
    yield Since(router)
    assert "secret" not in router.log


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_user_with_the_right_password(router: RunningRouter, mechanism: str) -> None:
    assert attempt(router.urls[0], Credentials(user="alice", password="secret", mechanisms=mechanism)).opened  # noqa: S106 - of this test


@pytest.mark.parametrize(
    ("user", "password", "mechanism"),
    [
        ("alice", "wrong", "PLAIN"),
        ("alice", "wrong", "SCRAM-SHA-256"),
        ("nobody", "secret", "PLAIN"),
        ("alice", "hidden", "PLAIN"),
    ],
)
def test_a_wrong_password_is_refused(
    router: RunningRouter, since: Since, user: str, password: str, mechanism: str
) -> None:
    """Counted, and told with the peer's name."""
    outcome = attempt(router.urls[0], Credentials(user=user, password=password, mechanisms=mechanism))
    assert not outcome.opened
    since.counted("refused_authentication", 1)
    since.says(r"connection of 127\.0\.0\.1:\d+ refused: .*[Aa]uthenticat")
    assert attempt(router.urls[0], Credentials(user="bob", password="hidden", mechanisms=mechanism)).opened  # noqa: S106 - of this test


def test_what_the_tools_say_of_users(router: RunningRouter, tmp_path: Path) -> None:
    """A password file is enough; what is wrong or missing is told with what to do."""
    file = tmp_path / "password"
    file.write_text("hidden\n")
    place = Place(router.urls[0], timeout=LONG, user="bob", password_file=str(file))
    connect(place).close()
    with pytest.raises(ClientError, match="the user, or the password, is not the right one"):
        connect(msgspec.structs.replace(place, user="alice"))
    with pytest.raises(ClientError, match="--sasl-username"):
        connect(Place(router.urls[0], timeout=LONG))


@pytest.mark.parametrize("credentials", [Credentials(mechanisms="ANONYMOUS"), Credentials(sasl=False)])
def test_nobody_is_refused_where_users_are_wanted(router: RunningRouter, credentials: Credentials) -> None:
    """Neither ANONYMOUS nor leaving SASL out is a way in."""
    assert not attempt(router.urls[0], credentials).opened


def test_anonymous_beside_users(router: RunningRouter) -> None:
    assert attempt(router.urls[1]).opened
    assert attempt(router.urls[1], Credentials(user="bob", password="hidden", mechanisms="PLAIN")).opened  # noqa: S106 - of this test
    assert not attempt(router.urls[1], Credentials(user="bob", password="wrong", mechanisms="PLAIN")).opened  # noqa: S106 - of this test


def test_a_password_in_the_clear_is_refused_where_encryption_is_required(
    router: RunningRouter, since: Since
) -> None:
    credentials = Credentials(user="alice", password="secret", mechanisms="PLAIN")  # noqa: S106 - of this test
    assert not attempt(router.urls[2], credentials).opened
    since.counted("refused_unprotected", 1)
