"""Each promise of docs/security.md has an attack that is refused: which tests try it, sentence by sentence.

A sentence with a word of refusing or bounding in it is a promise. It stands in PROMISES by its first words,
with the tests that try to break it; or in NO_PROMISES, if it only says why, or what to do. A new promise
without an attack fails here, and so does an attack that is not there any more.
"""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "security.md"
PROMISING = re.compile(
    r"(?i)\b(refuse[sd]?|reject(?:s|ed)?|prohibited|denied|nobody|never|must|only|cannot|may not|not allowed"
    r"|no (?:other|addresses|message|vhost|tenant|attempt|error)|not by|let in|bounds|exactly|judged|nothing"
    r"|lets? \w+ in|gets in|at once|needs?|one user|counts? for|not that right|keeps its users|limit-exceeded"
    r"|unauthorized-access|size-exceeded)\b"
)

FILES = {
    "administering": "system/management/test_administering.py",
    "administration": "unit/core/management/test_administration.py",
    "admission": "unit/core/links/test_admission.py",
    "changes": "system/management/test_changes.py",
    "check": "unit/routerd/config/test_security.py",
    "console": "system/monitoring/test_console_login.py",
    "connectors": "system/amqp/test_connectors.py",
    "dialling": "unit/workers/test_connectors.py",
    "doors": "system/security/test_doors.py",
    "edge": "system/network/test_edge.py",
    "gate": "unit/routerd/exporter/test_gate.py",
    "guard": "unit/workers/security/test_guard.py",
    "ids": "system/security/test_user_ids.py",
    "http_files": "unit/routerd/exporter/test_broken_certificates.py",
    "http_tls": "system/security/test_http_tls.py",
    "logins": "unit/workers/security/test_logins.py",
    "open": "unit/routerd/config/test_doors.py",
    "order": "unit/workers/security/test_sasl_order.py",
    "personal": "property/test_personal_rights.py",
    "policy": "unit/workers/security/test_policy.py",
    "reach": "unit/routerd/reload/test_reach.py",
    "reload": "system/security/test_reload.py",
    "reloading": "unit/routerd/reload/test_reload.py",
    "remote_hosts": "unit/routerd/translate/test_remote_hosts.py",
    "replies": "system/security/test_replies.py",
    "reply_to": "unit/core/links/test_reply_to.py",
    "rights": "system/management/test_rights.py",
    "sasl": "system/security/test_sasl.py",
    "service": "system/security/test_auth_service.py",
    "segment": "unit/shm/memory/test_segment.py",
    "sizes": "unit/workers/security/test_sasl_sizes.py",
    "subjects": "unit/workers/security/test_subjects.py",
    "tls": "system/security/test_tls.py",
    "vhost": "system/security/test_vhost_policy.py",
}

PROMISES: dict[str, str] = {
    # TLS
    "`requireEncryption: yes` refuses": "tls.plain_client_is_refused_where_tls sasl.password_in_the_clear",
    "TLS 1.0 and 1.1 are prohibited": "tls.only_the_protocols_of_the_profile http_tls.only_the_protocols_of",
    "With `EXTERNAL` among the mechanisms": "tls.wrong_certificate_is_refused",
    "`file:PATH` is in nobody's environment": "tls.no_child_has_the_password_in_its_environment",
    "A password is never written to a log": "check.no_mistake_tells check.password_is_not_in_a",
    "A client is refused whose field": "subjects.user_is_all_of_its_field guard.whose_subject_is_no_text_names_nobody",
    "A certificate is the user of EXTERNAL only": "guard.certificate_is_the_user_of_external_only",
    "Clients refused for their certificate": "tls.wrong_certificate_is_refused tls.garbage_hurts_nobody",
    "Unusable files stop the start": "check.files_of_a_profile check.key_of_another_certificate",
    "Files of profiles for connectors": "check.files_of_connections_that_the_router_makes",
    "**Certificates that are replaced on disk": "tls.changed_certificates http_tls.replaced_certificate",
    "Files that do not fit together": "guard.changed_files_are_loaded_once",
    "Where the exporter starts again": "http_files.clients_with_tls_are_refused_until http_files.files_that_break",
    "The router looks up names when it": "reloading.a_reload_looks_names_up",
    "A name for which the resolver has": "remote_hosts.a_resolver_that_does_not remote_hosts.a_name_without_an_answer",
    "A user in no group is refused": "vhost.who_is_not_let_in policy.who_is_denied_and_why",
    "**Connectors** with an `sslProfile`": "connectors.tls_is_spoken_only_with_whom_the_certificate_names",
    "The peer's certificate must be vouched": "connectors.tls_is_spoken_only_with_whom_the_certificate_names",
    "An address as `host` must stand": "dialling.what_a_certificate connectors.tls_is_spoken_only_with_whom",
    # pages of strangers
    "**Which name a request is for.**": "gate.host_is_an_address gate.host_of_a_whole_url",
    "A page that lets its own name point": "gate.host_is_an_address",
    "A `Host` that is missing, doubled": "gate.what_names_no_host_or_two",
    "Other origins are refused with 403": "gate.page_from_elsewhere gate.pages_of_the_same_origin",
    # SASL
    "**Nothing but a login is heard": "order.client_that_has_not_begun_is_refused order.second_init_is_refused",
    "What is said behind a failed login": "order.what_a_refused_client_says_behind_its_login",
    "Without a readable password no attempt": "dialling.password_that_cannot_be_read",
    "A connector's `policyVhost`": "policy.connector_is_held_to_its_group",
    "`mech_list` bounds all listeners": "check.mechanisms_that_the_sasl_configuration_leaves_out",
    "A database that is missing": "check.users_that_the_sasl_library_cannot_read",
    "An engine built without Cyrus SASL": "check.mechanisms_need_what_the_engine_has",
    "Make such users with the prepared form": "console.engine_prepares_no_password console.password_that_is_prepared",
    "**Logins never hold messages up.**": "logins.what_needs_a_password_goes_to_the_thread",
    "A `pwcheck_method` that answers late": "logins.what_needs_a_password_goes_to_the_thread",
    "Addresses take turns": "logins.take_turns",
    "At each worker 128 logins": "logins.waiting_logins_of_an_address logins.all_addresses_together",
    "While 32 of an address wait": "logins.failed_logins_of_an_address sasl.flood_of_guesses",
    "**Nobody learns which users exist**": "logins.nobody_learns sasl.challenge_does_not_tell",
    "A failed login is counted": "sasl.wrong_password_is_refused logins.failed_logins_of_an_address",
    "The answer to a client that is refused": "logins.nobody_learns_who_exists",
    # authentication service
    "**Nobody enters without the service's word**": "service.is_no_way_round service.wrong_password",
    "A service that is not there": "service.that_makes_no_sense service.that_is_not_there service.silent",
    "A frame of SASL that is passed on": "sizes.clients_larger_frame_is_refused sizes.services_larger_frame",
    "`saslMechanisms` bounds what is offered": "service.is_no_way_round",
    "EXTERNAL is never offered": "service.is_no_way_round",
    "Each verdict is a line of module AUTHSERVICE": "service.wrong_password service.that_makes_no_sense",
    "With an `sslProfile` the service's certificate": "service.by_tls_proves_its_name",
    # vhost policy
    "Lists of names allow exactly those": "admission.names_beginnings vhost.address_that_is_not",
    "What is not listed is not allowed": "doors.what_a_group_does_not_list doors.forbidden_address_however",
    "For a user whose name holds": "policy.leftmost_user personal.no_user_has doors.strangers_name_opens_nothing",
    "Every address that a terminus names": "doors.forbidden_address_however admission.every_address_that",
    "Node properties that cannot be read": "admission.every_address_that_a_terminus_names_is_judged",
    "A link to a transaction coordinator": "doors.coordinator_of_transactions admission.who_may_use_a",
    "Without `allowUserIdProxy`": "doors.foreign_user_id",
    "Where the user-id is judged": "ids.name_in_another_place_is_rejected ids.sections_in_order_pass",
    "Connections of role inter-router": "guard.other_routers_are_under_no_vhost_policy",
    "Those of edge routers are judged": "doors.forbidden_address doors.limits doors.messages_of",
    "An edge router's downlink": "doors.edge_connection_has_its_own_downlink_only",
    "While an id is connected": "doors.edge_routers_id_belongs_to_one_user",
    "Nobody but a router receives": "doors.nobody_receives_what_is_for edge.nobody_receives_what_is_for",
    "| vhost, user or host not allowed": "vhost.who_is_not_let_in vhost.connections_are_counted doors.limits",
    "| too many sessions": "vhost.sessions_are_counted",
    "| too many links": "vhost.links_are_counted doors.limits",
    "| address, dynamic or anonymous": "doors.what_a_group_does_not_list doors.forbidden_address_however",
    "| anonymous sender": "vhost.anonymous_sender_may_name_allowed doors.messages_of_an_anonymous_sender",
    "| user-id of somebody else": "vhost.foreign_user_id_is_rejected doors.foreign_user_id",
    "| sections out of order": "ids.name_in_another_place_is_rejected",
    "| message larger than": "vhost.message_too_large_ends vhost.message_that_nobody_takes doors.limits",
    # tenants
    "By these tenants would meet each other": "doors.tenants_do_not_meet admission.what_a_tenant_may_name",
    "what the group lists by such a beginning": "doors.tenants_use_what_their admission.what_is_of_routers",
    "names that a router has made up": "doors.tenants_get_answers edge.tenants_dynamic_addresses_are_reached",
    "No tenant receives there": "doors.tenants_get_answers",
    "A tenant's node properties": "admission.broker_is_shown_no_address_without_its_tenant",
    # management and the process
    "A new policy (reload) counts": "reload.rights_and_limits",
    "| `none` | Nothing": "administering.who_may_nothing_attaches_to_no_agent doors.management",
    "| `read` | Ask": "administering.who_reads_may_do_nothing_else doors.management",
    "| it is written |": "reach.log_goes_where_logs_may_go",
    "Where neither does, a peer": "administration.stranger_changes_nothing",
    "The right is judged where": "administering.who_reads_changes_no administration.agents_are_known",
    "A request that a connection with `read`": "administering.who_reads_changes_no_router",
    "A client of one router therefore changes no": "administering.who_reads_changes_no_router",
    "A router takes only questions": "administration.edge_router_makes_link_routes_only_by",
    "An edge router makes its link routes known": "administration.edge_router_makes doors.no_edge_router",
    "Under vhost policy one entry of": "administration.user_groups_lists_cover doors.no_edge_router_takes",
    "No link route takes a router's own": "administration.no_link_route_takes administration.a_tenants_name",
    "A link route of such addresses only": "administration.link_route_of_a_routers doors.no_edge_router",
    "With vhost policy a client needs": "rights.who_may_not_send_there_asks_nothing",
    "`allowAdminStatusUpdate: no`": "rights.connection_is_closed_only rights.link_route_to_oneself",
    "**Answers go to nobody else**": "replies.answers_reach_nobody_else reply_to.answers_go_nowhere_else",
    "A tenant's lies in its own space": "reply_to.tenants_answers_stay_in_its_space",
    "A client whose link has gone by the time": "rights.who_asks_without_a_trace_has_no_right",
    "They lie in the directories": "reach.requests_name_files_in_listed_directories_only",
    "Within them a log continues": "reach.log_goes_on_behind_lines_of_a_log reach.nul_is_no_part_of_any",
    "A request for `outputFile` that names": "reach.log_goes_on_behind_lines_of_a_log",
    "| `saslMechanisms` without": "open.check_warns_of_a_door_that_stands_open",
    "| `role: inter-router` or `edge` without": "open.check_warns_of_a_door_that_stands_open",
    "| `multiTenant: yes` without": "open.check_warns_of_a_door_that_stands_open",
    "| a user group without `remoteHosts`": "open.check_warns_of_a_door_that_stands_open",
    "Passwords (`password` of an sslProfile": "check.no_mistake_tells changes.check_shows_no_secret",
    "Shared memory is readable by its own user": "segment.everything_exists_with_mode_0600",
}

NO_PROMISES = (
    # reasons
    "The AMQP engine has no call for it",
    "qdrouterd knows only the last two",
    "Mechanisms that put a layer of their own",
    "The worker answers OPEN at once",
    "Some addresses lie in nobody's space",
    "Without authentication all edge routers are one user",
    "| `-z relro -z now`",
    "`-fcf-protection`",
    "All run as one user",
    "send signals to all processes",
    "| `IPAddressDeny=any`",
    "The [shipped unit]",
    # what to do
    "Give out certificates for days",
    "Let only listed certificates in",
    "To shut one out",
    "For a connector, `caCertFile` with an authority of its own",
    "A Prometheus server that scrapes",
    "Connectors log in with",
    "A mechanism needs its plug-in",
    "A thread of each worker",
    "A broker that connects to a listener",
    "The router runs without root",
)


def sentences() -> list[str]:
    """Sentences, list items and rows of tables."""
    text = re.sub(r"(?ms)^```.*?^```\n", "", PAGE.read_text(encoding="utf-8"))
    blocks = [""]
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            blocks.append("")
        elif re.match(r"- |\||\d+\. ", line):
            blocks.append(re.sub(r"^(- |\d+\. )", "", line))
        else:
            blocks[-1] += f" {line.strip()}"
    rows = [block for block in blocks if block.startswith("|")]
    prose = [block.strip() for block in blocks if block and not block.startswith("|")]
    return rows + [one for block in prose for one in re.split(r"(?<=\.)\s+(?=[A-Z`*])", block)]


@cache
def attacks_in(file: str) -> tuple[str, ...]:
    """Names of the tests in a file."""
    tree = ast.parse((ROOT / "tests" / FILES[file]).read_text(encoding="utf-8"))
    return tuple(one.name for one in tree.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"))


def test_each_promise_of_the_page_has_an_attack() -> None:
    """What is missing is a line of PROMISES, and before it a test that tries to break the promise."""
    known = (*PROMISES, *NO_PROMISES)
    promising = [one for one in sentences() if PROMISING.search(one)]
    assert [one for one in promising if not one.startswith(known)] == []


def test_each_attack_is_for_a_promise_of_the_page() -> None:
    """A promise that is taken back, or reworded, takes its line along."""
    page = sentences()
    stale = [begin for begin in (*PROMISES, *NO_PROMISES) if not any(one.startswith(begin) for one in page)]
    assert stale == []


def test_each_attack_is_there() -> None:
    """The tests that PROMISES names, by a part of their names, in their files."""
    named = [attack for attacks in PROMISES.values() for attack in attacks.split()]
    missing = [
        attack
        for attack in named
        if not any(attack.partition(".")[2] in name for name in attacks_in(attack.partition(".")[0]))
    ]
    assert missing == []
    assert set(FILES) == {attack.partition(".")[0] for attack in named}
