"""TLS, SASL and policy in a configuration: what is refused, and how it is told."""

import os
import subprocess
from pathlib import Path

import pytest

from routerd.config import ConfigError, parse
from routerd.config.entities.schema import ENTITY_TYPES
from routerd.config.entities.transport import SslProfile
from routerd.config.formats.source import words
from routerd.config.validity import expiring, expiry
from routerd.translate.security import policy_setup
from shm.contract.security import TlsSetup
from workers.control.tls import PasswordError, explain, is_uid_format, password_of
from workers.loop import engine


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate and its key, which has the password `word`."""
    folder = tmp_path_factory.mktemp("pair")
    certificate, key = folder / "tls.pem", folder / "key.pem"
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-passout", "pass:word"]
    made = ["-subj", "/CN=x", "-keyout", key, "-out", certificate]
    subprocess.run(["openssl", "req", "-x509", *new, *made], check=True, capture_output=True)  # noqa: S607 - whichever there is
    return certificate, key


def told(text: str) -> list[str]:
    """The mistakes of a configuration, without its file's name."""
    try:
        return [warning.text for warning in parse(text, "f.conf").warnings]
    except ConfigError as error:
        return [mistake.text for mistake in error.mistakes]


def profile(**attributes: object) -> str:
    lines = "".join(f"{name}: {value}\n" for name, value in attributes.items())
    return f"sslProfile {{\nname: p\n{lines}}}\n"


def listener(text: str) -> str:
    return f"listener {{\n{text}\n}}\n"


@pytest.mark.parametrize("entity", ["listener", "connector"])
def test_a_list_of_mechanisms_that_no_worker_has_room_for(entity: str) -> None:
    """Its listener would let nobody in."""
    for times, why in ((25, []), (26, ["longer than 255 characters; name each mechanism once"])):
        found = told(f"{entity} {{\nname: x\nport: 1\nsaslMechanisms: {'ANONYMOUS ' * times}\n}}\n")
        assert [text.partition("is ")[2] for text in found if "saslMechanisms" in text] == why


ENTITY = {one.short_name: one for one in ENTITY_TYPES}
PATTERNS = "policy {\nenableVhostNamePatterns: yes\n}\n"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({}, ""),
        ({"password": "pass:wrong"}, "privateKeyFile: "),
        ({"password": ""}, "is a password needed?"),
        ({"password": "env:ROUTERD_NO_SUCH"}, "password: there is no environment variable ROUTERD_NO_SUCH"),
        ({"password": "file:/no/such"}, "password: Unable to open password file /no/such, error: No such"),
        ({"certFile": "/no/such"}, "certFile: /no/such cannot be read (No such file or directory)"),
        ({"certFile": __file__}, "holds no certificate that can be used"),
        ({"privateKeyFile": __file__}, "holds no key that can be used"),
        ({"caCertFile": __file__}, "caCertFile: "),
        ({"ciphers": "NONSENSE"}, "ciphers: OpenSSL knows none of them"),
        ({"uidFormat": "xyz"}, "uidFormat: 'xyz' is not used"),
        ({"protocols": "TLSv1.2;TLSv1.1"}, "protocols: TLSv1.1 is broken and prohibited"),
        ({"protocols": "TLSv1.3"}, ""),
        ({"uidNameMappingFile": __file__}, "is no JSON object from names to names"),
    ],
)
def test_files_of_a_profile(pair: tuple[Path, Path], change: dict[str, str], what: str) -> None:
    """Attribute, file and reason; the password is never shown."""
    given = {"certFile": pair[0], "privateKeyFile": pair[1], "password": "word", **change}
    mistakes = told(listener("") + profile(**{name: value for name, value in given.items() if value}))
    if not what:
        assert mistakes == []
    else:
        (mistake,) = mistakes
        assert what in mistake
        assert "wrong" not in mistake


FILES = [name for name, one in ENTITY["sslProfile"].attributes.items() if one.kind == "path" and not one.deprecated]


@pytest.mark.parametrize("wrong", ["/no/such", __file__])
@pytest.mark.parametrize("given", [FILES, [name for name in FILES if name != "certFile"], *([one] for one in FILES)])
def test_each_file_of_a_profile_is_told(given: list[str], wrong: str) -> None:
    """All at once, each with what to give: who mends one by one starts the router as often."""
    mistakes = told(listener("") + profile(**dict.fromkeys(given, wrong), ciphers="NONSENSE"))
    files = [one for one in given if wrong == "/no/such" or one != "privateKeyFile"]  # a key needs its certificate
    assert sorted(one.split(":")[0].split()[1] for one in mistakes) == sorted([*files, "ciphers"])
    assert all("; give " in one for one in mistakes)


@pytest.mark.parametrize("name", [*FILES, "password"])
def test_a_pipe_is_no_file_of_a_profile(pair: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    """A worker, or the supervisor, would hang at it; no more is looked at."""
    os.mkfifo(tmp_path / "pipe")
    given = {"certFile": pair[0], "privateKeyFile": pair[1]} | {name: tmp_path / "pipe"}
    if name == "password":
        given[name] = f"file:{tmp_path / 'pipe'}"
    (mistake,) = told(listener("") + profile(**given))
    assert f"{name}: {tmp_path / 'pipe'}: it is no regular file" in mistake


def test_a_key_is_told_besides_another_mistake(pair: tuple[Path, Path]) -> None:
    mistakes = told(listener("") + profile(certFile=pair[0], privateKeyFile=__file__, caCertFile="/no/such"))
    assert [one.split(":")[0] for one in mistakes] == ["sslProfile privateKeyFile", "sslProfile caCertFile"]


@pytest.mark.parametrize(
    "user", ["connector {\nhost: h\nsslProfile: p\n}\n", "authServicePlugin {\nname: a\nhost: h\nsslProfile: p\n}\n"]
)
def test_files_of_connections_that_the_router_makes(user: str) -> None:
    """They are read before each attempt, so the router starts; unless a listener needs them, too."""
    missing = profile(caCertFile="/no/such")
    (warning,) = parse(listener("") + missing + user, "f.conf").warnings
    assert "/no/such cannot be read" in warning.text
    with pytest.raises(ConfigError):
        parse(listener("sslProfile: p") + missing + user, "f.conf")


def test_a_key_of_another_certificate(pair: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    made = ["-nodes", "-subj", "/CN=y", "-keyout", tmp_path / "k", "-out", other]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", *made], check=True, capture_output=True)  # noqa: S607 - whichever there is
    wrong = explain(TlsSetup("p", str(other), str(pair[1]), "word"))
    assert wrong is not None
    assert wrong[0] == "privateKeyFile"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (listener("requireSsl: yes"), "requireSsl: needs an sslProfile"),
        (listener("trustedCertsFile: /a"), "trustedCertsFile: needs an sslProfile"),
        (listener("saslMechanisms: EXTERNAL"), "EXTERNAL needs an sslProfile; nobody can use it"),
        (profile() + listener("sslProfile: p"), "sslProfile: p has no certFile"),
        (listener("saslMechanisms: PLANE"), "'PLANE' is not a SASL mechanism; did you mean PLAIN?"),
        (
            listener("http: yes\nauthenticatePeer: yes"),
            "authenticatePeer: does not protect an HTTP listener; give it an sslProfile",
        ),
        (
            listener("authenticatePeer: yes\nsaslMechanisms: ANONYMOUS"),
            "authenticatePeer: nobody can authenticate with ANONYMOUS alone",
        ),
        (
            listener("policyVhost: b") + "policy {\nenableVhostPolicy: yes\n}\nvhost {\nhostname: a\n}\n",
            "policyVhost: there is no vhost 'b'",
        ),
        (
            listener("") + "vhost {\nhostname: a\naliases: b c\n}\nvhost {\nhostname: c\n}\n",
            "hostname: 'c' is a name of the vhost in line 4, too",
        ),
        (
            PATTERNS + "vhost {\nhostname: #.a\n}\nvhost {\nhostname: #.#.a\n}\n",
            "hostname: pattern conflicts with '#.a' in line 4",
        ),
        (
            PATTERNS + "vhost {\nhostname: #.*\n}\nvhost {\nhostname: *.#\n}\n",
            "hostname: pattern conflicts with '#.*' in line 4",
        ),
        (listener("") + "policy {\npolicyDir: /no/such\n}\n", "policyDir: '/no/such' cannot be read"),
        (listener("") + "vhost {\nhostname: a\nallowUnknownUser: yes\n}\n", "there is no group $default"),
    ],
)
def test_what_cannot_work_is_told(text: str, what: str) -> None:
    assert any(what in mistake for mistake in told(text)), told(text)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("", "authenticatePeer: needs certificates to trust on an HTTP listener; give the sslProfile a caCert"),
        ("trustedCertsFile: /no/such", "trustedCertsFile: /no/such cannot be read"),
    ],
)
def test_http_clients_are_not_left_unauthenticated(pair: tuple[Path, Path], more: str, what: str) -> None:
    """Without certificates to trust nobody could be told from a stranger: the router does not start."""
    files = {"certFile": pair[0], "privateKeyFile": pair[1], "password": "word"}
    http = listener(f"http: yes\nsslProfile: p\nauthenticatePeer: yes\n{more}")
    (mistake,) = told(profile(**files) + http)
    assert mistake.startswith((f"listener {what}", what)), mistake


def test_a_group_that_contradicts_itself() -> None:
    """Names or patterns, not both."""
    group = "groups: {\ng: {\nusers: a\nsources: x\nsourcePattern: y\ntargetPattern: a.${user}.b\n}\n}"
    both, embedded = told(listener("") + f"vhost {{\nhostname: a\n{group}\n}}\n")
    assert "conflicting 'sources' and 'sourcePattern'" in both
    assert "'targetPattern' item 'a.${user}.b' may contain" in embedded


GROUPS = """vhost {
hostname: a
groups: {
f: {
users: a
}
g: {
%s
}
}
}
"""  # the group f begins in line 4 of this, and what g has in line 8


@pytest.mark.parametrize(
    "host", ["10.0.0.0/8", "10.0.0.9-10.0.0.1", "10.0.0.1-::1", "10.0.0.300", "10.0.0.1-10.0.0.300", "10.0.", "::g"]
)
def test_hosts_that_are_none(host: str) -> None:
    text = listener("") + GROUPS % f"remoteHosts: localhost, ten-4, a-1.example, 10.0.0.1-10.0.0.9, ::1, {host}"
    (mistake,) = told(text)
    assert f"remoteHosts of g: '{host}' is not an" in mistake


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ("remoteHosts: 10.0.0.300", "is not an address"),
        ("users: b, a", "user 'a' is in f and in g"),
        ("sourcePattern: a.${user}.b", "'sourcePattern' item"),
        ("targetPattern: a.${user}.b", "'targetPattern' item"),
        ("sourcePattern: y", "conflicting 'sources' and"),
        ("targetPattern: y", "conflicting 'targets' and"),
        ("maxMessageSize: -1", "maxMessageSize: "),
        ("maxSenders: many", "maxSenders: "),
    ],
)
def test_a_mistake_in_a_group_has_its_own_line(wrong: str, what: str) -> None:
    """Besides others of the group, each of which is told."""
    lines = ["sources: x" if "conflicting" in what else "", "targets: x" if "conflicting" in what else "", wrong]
    with pytest.raises(ConfigError) as error:
        parse(GROUPS % "\n".join([*lines, "maxSessions: many"]) + listener(""), "f.conf")
    (first, second) = error.value.mistakes
    assert (first.line, second.line) == (10, 11)
    assert what in first.text


def test_mechanisms_need_what_the_engine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Cyrus SASL only two work, and what to install is told."""
    monkeypatch.setattr(engine, "sasl_extended", lambda: False)
    plain = listener("host: 127.0.0.1\nsaslMechanisms: PLAIN\nauthenticatePeer: yes")
    (mistake,) = told(plain)
    assert "install libsasl2-dev" in mistake
    monkeypatch.setattr(engine, "sasl_extended", lambda: True)
    assert told(plain) == []


def test_vhosts_of_a_directory(tmp_path: Path) -> None:
    """They count like those of the file; mistakes in them are told with their own file and line."""
    (tmp_path / "a.json").write_text('[["vhost", {"hostname": "a", "maxConnections": 7}]]')
    (tmp_path / "other.txt").write_text("not looked at")
    text = listener("") + f"policy {{\nenableVhostPolicy: yes\npolicyDir: {tmp_path}\n}}\n"
    config = parse(text, "f.conf")
    (vhost,) = (one for one in config.entities if type(one).__name__ == "Vhost")
    (setup,) = policy_setup(config.policy, [vhost]).vhosts  # type: ignore[list-item]  # it is a Vhost
    assert (setup.hostname, setup.max_connections) == ("a", 7)
    (tmp_path / "b.json").write_text('[["vhost", {"hostname": "b"}],\n ["router", {}]]')
    with pytest.raises(ConfigError) as refused:
        parse(text, "f.conf")
    assert str(refused.value).startswith(f"{tmp_path}/b.json:2: 'router' does not belong in policyDir")


def test_passwords(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROUTERD_TEST_WORD", "of env")
    (tmp_path / "word").write_text("of file\nmore\n")
    given = ("env:ROUTERD_TEST_WORD", f"file:{tmp_path}/word", "pass:a:b", "literal:env:X", "plain", "a:b", "")
    assert [password_of(one) for one in given] == ["of env", "of file", "a:b", "env:X", "plain", "a:b", ""]
    assert password_of("literal:a", of_key=False) == "literal:a", "only a key's has this spelling"
    with pytest.raises(PasswordError, match="ROUTERD_NONE"):
        password_of("env:ROUTERD_NONE")


@pytest.mark.parametrize("given", [None, "", "TLSv1.3"])
def test_tls_1_2_and_1_3_unless_a_profile_says_otherwise(given: str | None) -> None:
    """Older versions are broken (RFC 8996)."""
    setup = SslProfile(name="p", protocols=given).tls
    assert setup.protocols == (given or "TLSv1.2 TLSv1.3")
    assert TlsSetup("p").protocols == "TLSv1.2 TLSv1.3"


def test_a_password_is_not_in_a_representation() -> None:
    assert "secret" not in repr(TlsSetup("p", "c", password="secret"))  # noqa: S106 - of this test


def test_words_and_letters() -> None:
    assert words(" a, b  c,") == ["a", "b", "c"]
    assert words("") == words(None) == words(" , ") == []
    assert is_uid_format("cslou1n")
    assert not is_uid_format("")
    assert not is_uid_format("cx")


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        ("conf", "sslProfile {\n name: s\n password geheim\n}\n"),
        ("conf", "sslProfile { name: s password: geheim }\n"),
        ("conf", 'sslProfile {\n name: s\n password: "geheim"\n}\n'),
        ("conf", "sslProfile {\n name: s\n password: geheim#1\n}\nnonsense\n"),
        ("conf", "connector {\n saslPassword: geheim\x07\n}\n"),
        ("json", '[["sslProfile", {"name": "s", "password": ["geheim"]}]]'),
        ("json", '[["sslProfile", {"name": "s", "password": geheim}]]'),
        ("json", '[["sslProfile", {"name": "s", "password" "geheim"}]]'),
        ("json", '[["connector", {"saslPassword": {"a": "geheim"}}, 1]]'),
        ("json", '{"password": "geheim"}'),
        ("toml", 'password = "geheim"\n'),
        ("toml", "[[connector]]\nsaslPassword = geheim\n"),
    ],
)
def test_no_mistake_tells_a_password(ending: str, text: str) -> None:
    """However wrong the place where it stands is."""
    with pytest.raises(ConfigError) as error:
        parse(text, f"f.{ending}")
    assert "geheim" not in str(error.value)


@pytest.mark.skipif(not engine.sasl_extended(), reason="the AMQP engine was built without Cyrus SASL")
@pytest.mark.parametrize(
    ("mech_list", "offered", "left_out"),
    [
        ("mech_list: PLAIN\n", "ANONYMOUS", "ANONYMOUS"),
        ("mech_list: PLAIN\n", "EXTERNAL PLAIN LOGIN", "EXTERNAL, LOGIN"),
        ("mech_list: plain, anonymous\n", "PLAIN ANONYMOUS", ""),
        ("pwcheck_method: auxprop\n", "PLAIN", ""),
    ],
)
def test_mechanisms_that_the_sasl_configuration_leaves_out(
    tmp_path: Path, mech_list: str, offered: str, left_out: str
) -> None:
    """Nobody would be offered them, and neither side would say why."""
    (tmp_path / "qdrouterd.conf").write_text(mech_list)
    text = f"router {{\nsaslConfigDir: {tmp_path}\n}}\n" + listener(f"port: 0\nsaslMechanisms: {offered}")
    found = [one for one in told(text) if "mech_list" in one]
    assert bool(found) == bool(left_out)
    assert all(f"leaves out {left_out}, so nobody" in one for one in found)


@pytest.mark.skipif(not engine.sasl_extended(), reason="the AMQP engine was built without Cyrus SASL")
@pytest.mark.parametrize(
    ("users", "offered", "missing"),
    [("/no/such.sasldb", "PLAIN", True), ("/no/such.sasldb", "ANONYMOUS EXTERNAL", False), (__file__, "PLAIN", False)],
)
def test_users_that_the_sasl_library_cannot_read(tmp_path: Path, users: str, offered: str, missing: bool) -> None:
    """Each password would be wrong, and no line of the log would say why."""
    (tmp_path / "qdrouterd.conf").write_text(f"sasldb_path: {users}\n")
    text = f"router {{\nsaslConfigDir: {tmp_path}\n}}\n" + listener(f"port: 0\nsaslMechanisms: {offered}")
    assert any(f"{users}, the sasldb_path of" in one for one in told(text)) == missing


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (-1.0, "has expired, so peers refuse the router"),
        (60.0, "expires in 1 minute"),
        (30.0 * 60, "expires in 30 minutes"),
        (3.0 * 3600, "expires in 3.0 hours"),
        (29.0 * 86400, "expires in 29.0 days"),
        (31.0 * 86400, None),
    ],
)
def test_a_certificate_that_soon_expires_is_a_warning(pair: tuple[Path, Path], left: float, said: str | None) -> None:
    """Of `routerd check`; a router that runs tells it in its log."""
    text = f"sslProfile {{\n name: p\n certFile: {pair[0]}\n privateKeyFile: {pair[1]}\n password: word\n}}\n"
    config = parse(text, "router.conf")
    found = [str(one) for one in expiring(config.checked, expiry(pair[0].read_text()) - left)]
    where = f"router.conf:3: warning: sslProfile certFile: the certificate in {pair[0]}"
    assert found == ([f"{where} {said}; renew it"] if said else [])


@pytest.mark.parametrize(
    ("vhost", "why"),
    [
        ("b", "connector policyVhost: there is no vhost 'b'; add a vhost with that hostname"),
        ("alias", "connector policyVhost: the vhost 'alias' has no group $connector; add it, for connectors"),
        ("full", ""),
    ],
)
@pytest.mark.parametrize("policed", [True, False])
def test_a_connector_that_its_vhost_would_never_let_in_is_warned_of(vhost: str, why: str, policed: bool) -> None:
    """Each attempt of it was denied; the file had no mistake."""
    more = "policy {\nenableVhostPolicy: yes\n}\n" if policed else ""
    more += "vhost {\nhostname: a\naliases: alias\n}\n"
    more += 'vhost {\nhostname: full\ngroups: {\n"$connector": {"sources": "*"}\n}\n}\n'
    found = told(f"{more}{listener('port: 0')}connector {{\nname: c\npolicyVhost: {vhost}\n}}\n")
    lines = [text for text in found if "policyVhost" in text]
    never = "; no connection is made until that is right"
    assert lines == ([why + never] if why and policed else [])
