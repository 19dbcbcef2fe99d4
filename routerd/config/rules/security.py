"""Rules of TLS, SASL and vhost policy: usable files, known names, consistent groups."""

import ipaddress
import os
import re
from collections.abc import Iterator

import msgspec

from routerd.config.entities.policy import Policy, Vhost
from routerd.config.entities.router import Router
from routerd.config.entities.transport import AuthServicePlugin, Connector, Listener, SslProfile
from routerd.config.formats.closest import closest
from routerd.config.formats.source import IRREGULAR, Block, Mistake, camel_case, is_regular, shown, words
from routerd.config.rules.check import Checked, each
from workers.control.cyrus import configuration
from workers.control.policy import CONNECTOR_GROUP, USER
from workers.control.tls import PROTOCOLS, faults, is_uid_format, unknown_protocols
from workers.loop import engine

# Mechanisms of the IANA SASL registry for which Cyrus SASL has plugins.
MECHANISMS = (
    "ANONYMOUS", "EXTERNAL", "PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-224", "SCRAM-SHA-256", "SCRAM-SHA-384",
    "SCRAM-SHA-512", "GSSAPI", "GS2-KRB5", "DIGEST-MD5", "CRAM-MD5", "LOGIN", "OAUTHBEARER", "XOAUTH2",
    "OTP", "NTLM", "SRP", "PASSDSS-3DES-1", "SECURID", "GS2-IAKERB",
)  # fmt: skip
NUMBERS = re.compile(r"[0-9]*\.[0-9.]*|.*:.*")  # who writes this means an address, not a name
MOST_MECHANISMS = 255  # characters; a worker has no room for more
WITHOUT_CYRUS = {"ANONYMOUS", "EXTERNAL"}  # Proton has these without Cyrus SASL


def check_security(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in TLS, SASL and policy of all entities of a configuration."""
    profiles = {profile.name: profile for _, profile in each(checked, SslProfile)}
    router = next((router for _, router in each(checked, Router)), Router())
    policy = next((policy for _, policy in each(checked, Policy)), Policy())
    vhosts = [vhost for _, vhost in each(checked, Vhost)]
    outgoing = _outgoing(checked)
    for at in checked:
        if isinstance(at.entity, Listener | Connector):
            yield from _mechanisms(at, at.entity.mechanisms)
        match at.entity:
            case SslProfile() as profile:
                yield from (_of_outgoing(one, profile, outgoing) for one in _profile(at, profile))
            case Listener(http=False):
                yield from _listener(at, at.entity, profiles.get(at.entity.ssl_profile))
                yield from _sasl(at, at.entity, router)
                if policy.enable_vhost_policy and not policy.enable_vhost_name_patterns:
                    yield from _policy_vhost(at, at.entity.policy_vhost, vhosts)
            case Listener(http=True) as listener:
                if listener.websockets:
                    yield from _sasl(at, listener, router)
                if listener.ssl_profile in profiles:
                    yield from _secured_http(at, listener, profiles[listener.ssl_profile])
            case Connector(policy_vhost=str(name)) if policy.enable_vhost_policy:
                yield from _connector_vhost(at, name, vhosts)
            case Vhost():
                yield from _vhost(at, at.entity)
    yield from _vhost_names(checked)
    if policy.enable_vhost_name_patterns:
        yield from _vhost_patterns(checked)


def _outgoing(checked: list[Checked]) -> set[str | None]:
    """Return the names of sslProfiles that only connectors use."""
    entities = [at.entity for at in checked]
    used = {one.ssl_profile for one in entities if isinstance(one, Connector | AuthServicePlugin)}
    return used - {one.ssl_profile for one in entities if isinstance(one, Listener)}


def _of_outgoing(mistake: Mistake, profile: SslProfile, outgoing: set[str | None]) -> Mistake:
    """Turn a connector's missing file into a warning: each attempt reads the file, which may come later."""
    if profile.name not in outgoing or mistake.warning:
        return mistake
    text = f"{mistake.text}; no connection is made with it until that is right"
    return msgspec.structs.replace(mistake, text=text, warning=True)


def _profile(at: Checked, profile: SslProfile) -> Iterator[Mistake]:
    if profile.uid_format and not is_uid_format(profile.uid_format):
        text = f"{shown(profile.uid_format)} is not used; give letters of c s l o u n 1 2 5"
        yield at.mistake("uidFormat", text, warning=True)
    tls = profile.tls
    if unknown := unknown_protocols(tls.protocols):
        what = f"{shown(unknown[0])} is not a version of TLS, so nobody can connect"
        yield at.mistake("protocols", f"{what}; give some of {', '.join(PROTOCOLS)}", warning=True)
    elif old := [name for name in PROTOCOLS[:2] if name in words(tls.protocols.replace(";", " "))]:
        text = f"{old[0]} is broken and prohibited (RFC 8996); leave it out unless a peer has nothing newer"
        yield at.mistake("protocols", text, warning=True)
    named = {
        "certFile": tls.cert_file,
        "privateKeyFile": tls.private_key_file,
        "caCertFile": tls.ca_cert_file,
        "uidNameMappingFile": tls.uid_name_mapping_file,
        "password": tls.password.removeprefix("file:") if tls.password.startswith("file:") else "",
    }
    if irregular := {name: file for name, file in named.items() if _is_endless(file)}:
        yield from (at.mistake(name, f"{file}: {IRREGULAR}; give a file") for name, file in irregular.items())
    else:
        yield from (at.mistake(attribute, fault) for attribute, fault in faults(tls))


def _is_endless(file: str) -> bool:
    """Whether a file is a pipe, device or socket: a process that reads it may hang."""
    return os.path.exists(file) and not os.path.isdir(file) and not is_regular(file)


def _secured_http(at: Checked, listener: Listener, profile: SslProfile) -> Iterator[Mistake]:
    if not profile.cert_file:
        yield at.mistake("sslProfile", f"{profile.name} has no certFile, which a listener needs")
    if listener.authenticate_peer and not (listener.trusted_certs_file or profile.ca_cert_file):
        text = "needs certificates to trust on an HTTP listener; give the sslProfile a caCertFile"
        yield at.mistake("authenticatePeer", text)
    yield from _trusted_certs(at, listener)


def _trusted_certs(at: Checked, listener: Listener) -> Iterator[Mistake]:
    file = listener.trusted_certs_file
    if file and (_is_endless(file) or not os.access(file, os.R_OK)):
        yield at.mistake("trustedCertsFile", f"{file} cannot be read; give a file of certificates")


def _listener(at: Checked, listener: Listener, profile: SslProfile | None) -> Iterator[Mistake]:
    offered = listener.mechanisms.split()
    if listener.ssl_profile is None:
        for name, given in (("requireSsl", listener.require_ssl), ("trustedCertsFile", listener.trusted_certs_file)):
            if given:
                yield at.mistake(name, "needs an sslProfile; give one, or remove this")
        if "EXTERNAL" in offered:
            yield at.mistake("saslMechanisms", "EXTERNAL needs an sslProfile; nobody can use it", warning=True)
    elif profile is not None:
        if not profile.cert_file:
            yield at.mistake("sslProfile", f"{profile.name} has no certFile, which a listener needs")
        if "EXTERNAL" in offered and not (listener.trusted_certs_file or profile.ca_cert_file):
            text = "EXTERNAL needs certificates to trust; give the sslProfile a caCertFile"
            yield at.mistake("saslMechanisms", text)
    yield from _trusted_certs(at, listener)
    if listener.authenticate_peer and offered == ["ANONYMOUS"]:
        text = "nobody can authenticate with ANONYMOUS alone; add a mechanism such as PLAIN to saslMechanisms"
        yield at.mistake("authenticatePeer", text)


def _mechanisms(at: Checked, text: str) -> Iterator[Mistake]:
    if len(text.encode()) > MOST_MECHANISMS:
        yield at.mistake("saslMechanisms", f"is longer than {MOST_MECHANISMS} characters; name each mechanism once")


def _sasl(at: Checked, listener: Listener, router: Router) -> Iterator[Mistake]:
    if listener.sasl_plugin:
        return  # only the service knows its mechanisms
    offered = listener.mechanisms.split()
    for name in offered:
        if name not in MECHANISMS:
            guess = closest(name, MECHANISMS)
            instead = f"did you mean {guess}?" if guess else f"give some of {', '.join(MECHANISMS[:5])}, …"
            yield at.mistake("saslMechanisms", f"{shown(name)} is not a SASL mechanism; {instead}")
    yield from _unlisted(at, offered, router)
    if set(offered) <= WITHOUT_CYRUS and not (listener.authenticate_peer and not offered):
        return
    if not engine.sasl_extended():
        text = (
            "the AMQP engine was built without Cyrus SASL and has ANONYMOUS and EXTERNAL only; "
            "install libsasl2-dev and build again (make clean-all build)"
        )
        yield at.mistake("saslMechanisms", text)
    elif directory := router.sasl_config_dir:
        file = os.path.join(directory, f"{router.sasl_config_name}.conf")
        if not os.access(file, os.R_OK):
            text = f"{file} cannot be read: set saslConfigDir and saslConfigName of router, or create it"
            yield at.mistake("saslMechanisms", text, warning=True)


def _unlisted(at: Checked, offered: list[str], router: Router) -> Iterator[Mistake]:
    """Yield mechanisms that Cyrus SASL's configuration leaves out, and user files that it cannot read."""
    file = os.path.join(router.sasl_config_dir or "", f"{router.sasl_config_name}.conf")
    if not router.sasl_config_dir or not os.access(file, os.R_OK) or not engine.sasl_extended():
        return
    said = configuration(router.sasl_config_dir, router.sasl_config_name)
    listed = words(said.get("mech_list", "").upper())
    left_out = [name for name in offered if name not in listed] if "mech_list" in said else []
    if left_out:
        text = f"the mech_list of {file} leaves out {', '.join(left_out)}, so nobody can use it; add it there"
        yield at.mistake("saslMechanisms", text, warning=True)
    users = said.get("sasldb_path", "")
    if users and not set(offered) <= WITHOUT_CYRUS and not os.access(users, os.R_OK):
        text = f"{users}, the sasldb_path of {file}, cannot be read, so no password is right; see saslpasswd2"
        yield at.mistake("saslMechanisms", text, warning=True)


def _policy_vhost(at: Checked, name: str | None, vhosts: list[Vhost]) -> Iterator[Mistake]:
    known = [vhost.hostname for vhost in vhosts] + [a for vhost in vhosts for a in words(vhost.aliases)]
    if name is None or name in known:
        return
    guess = closest(name, known)
    instead = f"did you mean {shown(guess)}?" if guess else "add a vhost with that hostname"
    yield at.mistake("policyVhost", f"there is no vhost {shown(name)}; {instead}")


def _connector_vhost(at: Checked, name: str, vhosts: list[Vhost]) -> Iterator[Mistake]:
    """Yield warnings of a vhost that lets no connector in; management may add it, or its group, later."""
    found = [vhost for vhost in vhosts if name in (vhost.hostname, *words(vhost.aliases))]
    mistakes = list(_policy_vhost(at, name, vhosts))
    if found and CONNECTOR_GROUP not in found[0].user_groups:
        text = f"the vhost {shown(name)} has no group {CONNECTOR_GROUP}; add it, for connectors"
        mistakes = [at.mistake("policyVhost", text)]
    for one in mistakes:
        text = f"{one.text}; no connection is made until that is right"
        yield msgspec.structs.replace(one, text=text, warning=True)


def _vhost_names(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in host names that stand for more than one vhost."""
    seen: dict[str, Checked] = {}
    for at, vhost in each(checked, Vhost):
        names = [("hostname", vhost.hostname), *(("aliases", name) for name in words(vhost.aliases))]
        for attribute, name in names:
            first = seen.setdefault(name, at)
            if first is not at or [n for _, n in names].count(name) > 1:
                yield at.mistake(attribute, f"{shown(name)} is a name of the vhost {first.where(at)}, too; remove one")
                break


def _vhost_patterns(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in pairs of patterns that match the same names: either vhost might apply."""
    seen: dict[tuple[str, ...], tuple[Checked, str]] = {}
    for at, vhost in each(checked, Vhost):
        name = vhost.hostname
        first, other = seen.setdefault(_plain(name), (at, name))
        if name != other:
            what = f"pattern conflicts with {shown(other)} {first.where(at)}"
            yield at.mistake("hostname", f"{what}: both stand for the same names; remove one")


def _plain(pattern: str) -> tuple[str, ...]:
    """Return one form for patterns of the same names: of wildcards in a row ``*`` first, then one ``#``."""
    plain: list[str] = []
    for word in pattern.split("."):
        if plain and plain[-1] == "#" and word in ("*", "#"):
            plain[-1:] = ["*", "#"] if word == "*" else ["#"]
        else:
            plain.append(word)
    return tuple(plain)


def conflicts(vhost: Vhost) -> Iterator[tuple[str, str, str]]:
    """Yield contradictions within groups that qdrouterd refuses as well: group, attribute, and its words."""
    for name, group in vhost.user_groups.items():
        whose = f"Policy vhost {vhost.hostname!r} user group {name!r}"
        for what, names, patterns in (
            ("source", group.sources, group.source_pattern),
            ("target", group.targets, group.target_pattern),
        ):
            if names is not None and patterns is not None:
                both = f"'{what}s' and '{what}Pattern' attributes"
                yield name, f"{what}Pattern", f"{whose} specifies conflicting {both}. Use only one or the other."
            for word in words(patterns):
                if USER in word and not word.startswith(USER) and not word.endswith(USER):
                    where = f"policy key '{what}Pattern' item {word!r}"
                    text = f"{whose} {where} may contain match pattern {USER!r} as a prefix or a suffix only."
                    yield name, f"{what}Pattern", text


def _vhost(at: Checked, vhost: Vhost) -> Iterator[Mistake]:
    yield from (_in_group(at, group, attribute, text) for group, attribute, text in conflicts(vhost))
    users: dict[str, str] = {}
    for name, group in vhost.user_groups.items():
        for user in words(group.users):
            if (first := users.setdefault(user, name)) != name:
                text = f"user {shown(user)} is in {first} and in {name}; a user has one group"
                yield _in_group(at, name, "users", text)
        for word in words(group.remote_hosts):
            if wrong := _remote_host(word):
                yield _in_group(at, name, "remoteHosts", f"remoteHosts of {name}: {shown(word)} is {wrong}")
    if vhost.allow_unknown_user and "$default" not in vhost.user_groups:
        text = "there is no group $default for them, so they are denied; add it to groups"
        yield at.mistake("allowUnknownUser", text, warning=True)


def _in_group(at: Checked, group: str, attribute: str, text: str) -> Mistake:
    """Return a mistake in an attribute of a user group, at its own line."""
    mistake, block = at.mistake("groups", text), at.block
    for name in ("groups", group, attribute):
        setting = next((one for one in reversed(block.settings) if name in (one.name, camel_case(one.name))), None)
        if setting is None:
            break
        mistake = msgspec.structs.replace(mistake, line=setting.line)
        if not isinstance(setting.value, Block):
            break
        block = setting.value
    return mistake


def _remote_host(word: str) -> str:
    """Return what is wrong with an address, a range of them, or a name; empty if nothing is."""
    if "/" in word:
        return "not an address; give a range such as 10.0.0.1-10.0.0.254"
    first, dash, last = word.partition("-")
    try:
        low, high = ipaddress.ip_address(first), ipaddress.ip_address(last if dash else first)
    except ValueError:  # else a name, which is looked up when the router starts
        meant = NUMBERS.fullmatch(word) or (dash and any(map(NUMBERS.fullmatch, (first, last))))
        return "not an address; give one such as 10.0.0.1 or 2001:db8::1, or a range of two" if meant else ""
    if (low.version, int(low)) > (high.version, int(high)) or low.version != high.version:
        return "not an ascending range of addresses of one family"
    return ""
