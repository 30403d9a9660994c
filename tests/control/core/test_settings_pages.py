"""The settings as people see them: what each role is offered, secrets shown once, looks kept, parts that are silent."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from events.models import AgentKey, Fact
from events.store import retention
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.access.selectors import grants_of
from recovery_ops.control.access.services import accounts
from recovery_ops.control.breakers.services import overrides
from recovery_ops.control.core import task_heartbeats
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.models.heartbeats import Beat
from recovery_ops.control.core.permissions import LEAST_ROLE
from recovery_ops.control.core.task_heartbeats import HeartbeatLog, Sign
from recovery_ops.control.self_monitoring.dead_man_switch import HEARD
from recovery_ops.control.self_monitoring.views.health import collation_words
from recovery_ops.rules.roles import ROLES, Role
from tests.support.actions import SEARCH, asked, person
from tests.support.engines import engine
from tests.support.html import Shown
from tests.support.pages import REASON, signed_in, text_of, troubled_fleet
from tests.support.sentences import left_out
from tests.support.stories import NOW

__all__ = ["engine"]  # the fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def faults(answer: Any) -> set[str]:
    """The fields of a form beside which something wrong is told."""
    form = answer.context["form"]
    shown = Shown(answer).ids
    assert all({f"{name}-error", f"{form[name].auto_id}_error"} & shown for name in form.errors)
    return set(form.errors)


def standings(client: Client) -> dict[str, str]:
    """The parts on the page of health, each with how it stands."""
    parts = Shown(client.get("/settings/health")).within("id", "health").having("key")
    return {one.data["key"]: standing for one in parts for standing in Shown(one).values("standing")}


def new_key(client: Client, **changed: Any) -> Any:
    form = {"name": "billing", "scopes": ["ingest", "desired"], "days": "90", "reason": REASON, "key": "k-1"} | changed
    return client.post("/settings/keys/new", form)


# -- keys -------------------------------------------------------------------------------------------------------------
def test_a_key_is_made_shown_once_and_never_again() -> None:
    client = signed_in(Role.ADMIN)
    answer = new_key(client)
    key = AgentKey.objects.get()
    secret = re.search(rf"{key.prefix}_[\w-]+", answer.content.decode())
    assert secret
    assert "no-store" in answer.headers["Cache-Control"]
    again = new_key(client)
    assert secret[0] not in again.content.decode()
    assert (again.context["made"].key, again.context["made"].token) == (key, None)
    listed = client.get("/settings/keys")
    assert key.prefix in listed.content.decode()
    assert secret[0] not in listed.content.decode()


def test_a_key_is_replaced_and_revoked_on_its_pages() -> None:
    client = signed_in(Role.ADMIN)
    new_key(client)
    old = AgentKey.objects.get()
    answer = client.post(f"/settings/keys/{old.prefix}/replace", {"overlap_s": "3600", "reason": REASON, "key": "k-2"})
    token = answer.context["made"].token
    assert [one.text for one in Shown(answer).having("secret")] == [token]
    assert token.startswith(answer.context["made"].key.prefix)
    where = f"/settings/keys/{old.prefix}/revoke"
    assert faults(client.post(where, {"reason": REASON, "confirm": "other"})) == {"confirm"}
    assert client.post(where, {"reason": REASON, "confirm": "billing"}).status_code == 303
    old.refresh_from_db()
    assert old.revoked_at
    assert "revoked" in text_of(client.get("/settings/keys"))
    assert client.get("/settings/keys/ro_none/revoke").status_code == 404


def test_what_was_typed_wrongly_stands_beside_its_field_and_is_kept() -> None:
    answer = new_key(signed_in(Role.ADMIN), name="", reason="because it is needed", scopes=[])
    assert answer.status_code == 422
    assert faults(answer) == {"name", "scopes"}
    assert "because it is needed" in text_of(answer)
    assert not AgentKey.objects.exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.APPROVER])
def test_who_is_no_admin_looks_and_does_not_touch(role: Role) -> None:
    client = signed_in(role)
    assert "/settings/keys/new" not in Shown(client.get("/settings/keys")).links
    assert "/settings/access/new" not in Shown(client.get("/settings/access")).links
    assert client.get("/settings/keys/new").status_code == 403
    assert new_key(client).status_code == 403
    assert client.get("/settings/access/new").status_code == 403
    me = User.objects.get(username="ana").pk
    assert (
        client.post(f"/settings/access/{me}/role", {"role": "admin", "where": "dev", "reason": REASON}).status_code
        == 403
    )


# -- people -----------------------------------------------------------------------------------------------------------
def test_somebody_is_let_in_with_a_password_shown_once() -> None:
    client = signed_in(Role.ADMIN)
    form = {"name": "eva", "role": "operator", "where": "dev", "reason": REASON, "key": "p-1"}
    answer = client.post("/settings/access/new", form)
    password = re.search(r'<pre class="code"[^>]*>([^<]+)</pre>', answer.content.decode())
    assert password
    assert Client().login(username="eva", password=password[1])
    assert RoleGrant.objects.get(user__username="eva").environment == "dev"
    assert password[1] not in client.post("/settings/access/new", form).content.decode()
    assert faults(client.post("/settings/access/new", form | {"key": "p-2"})) == {"name"}


def test_an_admin_of_one_environment_gives_no_role_elsewhere() -> None:
    client = signed_in(Role.ADMIN)
    form = {"name": "eva", "role": "admin", "where": "*", "reason": REASON}
    assert client.post("/settings/access/new", form).status_code == 422
    eva = User.objects.create_user("eva").pk
    assert client.post(f"/settings/access/{eva}/reset", {"reason": REASON}).status_code == 404
    assert "eva" not in text_of(client.get("/settings/access"))


def test_the_table_of_roles_is_the_one_that_is_obeyed() -> None:
    page = signed_in(Role.VIEWER).get("/settings/access")
    said, deeds = text_of(page), page.context["deeds"]
    assert [one.may.count(True) for one in deeds] == [len(ROLES) - ROLES.index(least) for least in LEAST_ROLE.values()]
    assert all(one.words in said for one in deeds)


def test_a_password_is_changed_by_its_owner_alone() -> None:
    client = signed_in(Role.VIEWER)
    user = User.objects.get(username="ana")
    user.set_password("correct horse battery")
    user.save()
    client.force_login(user)
    form = {"old_password": "wrong", "new_password1": "staple battery horse", "new_password2": "staple battery horse"}
    assert client.post("/settings/you/password", form).status_code == 422
    form["old_password"] = "correct horse battery"
    assert client.post("/settings/you/password", form).status_code == 303
    assert client.get("/settings/you").status_code == 200, "this session goes on"
    assert Client().login(username="ana", password="staple battery horse")
    assert AuditEntry.objects.get().verb == "account.password"


# -- looks ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        ({"contrast": "more"}, 'data-contrast="more"'),
        ({"density": "compact"}, 'data-density="compact"'),
        ({"motion": "less"}, 'data-motion="less"'),
        ({"keys": "off"}, 'data-keys="off"'),
        ({"zone": "Asia/Kolkata"}, 'data-zone="Asia/Kolkata"'),
    ],
)
def test_looks_are_kept_without_script_and_forgotten_again(chosen: dict[str, str], shown: str) -> None:
    client = signed_in()
    assert shown not in client.get("/breakers").content.decode()
    assert client.post("/look", chosen | {"next": "/breakers"}).headers["Location"] == "/breakers"
    assert shown in client.get("/breakers").content.decode()
    [(name, value)] = chosen.items()
    form = client.get("/settings/you").content.decode()
    assert f'name="{name}" value="{value}" checked' in form or f"<option selected>{value}</option>" in form
    client.post("/look", dict.fromkeys(chosen, "UTC" if "zone" in chosen else ""))
    assert shown not in client.get("/breakers").content.decode()


def test_moments_are_written_in_the_chosen_zone_and_links_stay_in_utc() -> None:
    troubled_fleet()
    client = signed_in()
    assert "UTC" in text_of(client.get("/capacity?range=1h"))
    client.post("/look", {"zone": "Asia/Kolkata"})
    answer = client.get("/capacity?range=1h")
    local = NOW + timedelta(hours=5, minutes=30)
    assert f"{local:%H:%M:%S} IST" in text_of(answer)
    assert f"to={NOW - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}" in answer.content.decode().replace("%3A", ":")
    client.cookies["recovery-zone"] = "Middle-earth/Shire"
    assert client.get("/capacity").status_code == 200


# -- health and data --------------------------------------------------------------------------------------------------
def test_health_says_what_is_silent_and_what_fails() -> None:
    client = signed_in(Role.VIEWER)
    before = standings(client)
    assert (before["Worker"], before["Scheduler"]) == ("unknown", "unknown")
    sweep = "events.tasks.sweep"
    task_heartbeats.write(
        {
            sweep: Sign(at=NOW - timedelta(hours=4), took_s=1.5),
            Beat.SCHEDULER: Sign(at=NOW - timedelta(seconds=3)),
            "recovery_ops.control.tasks.keep_escalations": Sign(at=NOW, failed_at=NOW, failure="OSError('disk')"),
        }
    )
    now = standings(client)
    assert (now["Worker"], now["Scheduler"], now["Task queue"]) == ("late", "ok", "ok")
    answer = client.get("/settings/health")
    assert "sweep facts" in Shown(answer).one("key", "Worker").text
    assert "OSError('disk')" in text_of(answer)


def test_health_says_when_the_dead_man_s_switch_heard_and_that_a_broker_is_silent(
    settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = signed_in(Role.VIEWER)
    name = "Dead man’s switch"
    assert name not in standings(client)
    settings.DEAD_MAN_URL = "https://ear.example/ping"
    assert standings(client)[name] == "unknown"
    task_heartbeats.write({HEARD: Sign(at=NOW - timedelta(seconds=20))})
    assert standings(client)[name] == "ok"
    task_heartbeats.write({HEARD: Sign(at=NOW - timedelta(minutes=20))})
    assert standings(client)[name] == "late"
    assert standings(client)["Task queue"] == "ok"
    monkeypatch.setattr(current_app.conf, "broker_read_url", "redis://127.0.0.1:1/0")
    assert standings(client)["Task queue"] == "late"


def test_data_says_where_facts_are_sent_and_when_the_last_came() -> None:
    client = signed_in(Role.VIEWER)
    assert client.get("/settings/data").context["last_received"] is None
    troubled_fleet()
    answer = client.get("/settings/data")
    said = text_of(answer)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT=http://testserver" in said
    assert "http://testserver/v1/logs" in said
    assert answer.context["last_received"] == NOW - timedelta(seconds=5)


def test_a_failure_stays_known_when_the_next_run_goes_well() -> None:
    notebook = HeartbeatLog(write_every_s=10.0)
    notebook.note("one", Sign(at=NOW, failed_at=NOW, failure="boom"), now_s=0.0)
    notebook.note("one", Sign(at=NOW + timedelta(seconds=2), took_s=0.1), now_s=2.0)
    assert Beat.objects.get().at == NOW, "not before it is time to write again"
    notebook.note("one", Sign(at=NOW + timedelta(seconds=11), took_s=0.1), now_s=11.0)
    kept = Beat.objects.get()
    assert (kept.at, kept.failed_at, kept.failure) == (NOW + timedelta(seconds=11), NOW, "boom")


def test_data_counts_what_is_there() -> None:
    client = signed_in(Role.VIEWER)
    assert sum(day.count for day in client.get("/settings/data").context["days"]) == 0
    troubled_fleet()
    answer = client.get("/settings/data").context
    count = Fact.objects.filter(environment="dev").count()
    assert sum(day.count for day in answer["days"]) == count > 0
    assert left_out(answer["sentence"], str(count), "dev") == []
    assert retention.USUAL in {line.length for line in answer["kept"]}


def test_every_section_is_one_link_away() -> None:
    client = signed_in(Role.VIEWER)
    page = client.get("/settings").content.decode()
    for path in ("you", "keys", "access", "data", "health"):
        assert f'href="/settings/{path}"' in page
        assert client.get(f"/settings/{path}").status_code == 200
    assert client.get("/settings/").headers["Location"] == "/settings"


def test_somebody_says_where_they_are_written_to_and_the_log_does_not_say_where() -> None:
    client = signed_in(Role.VIEWER)
    assert client.post("/settings/you/email", {"email": "nowhere"}).status_code == 422
    assert client.post("/settings/you/email", {"email": "ana@example.org"}).status_code == 303
    assert User.objects.get(username="ana").email == "ana@example.org"
    assert "ana@example.org" in text_of(client.get("/settings/you"))
    assert client.post("/settings/you/email", {"email": ""}).status_code == 303
    entries = AuditEntry.objects.filter(verb="account.email").order_by("number")
    assert [entry.after for entry in entries] == [{"has_email": True}, {"has_email": False}]
    assert "example" not in "".join(f"{entry.before_text}{entry.after_text}{entry.reason}" for entry in entries)


def test_a_role_for_one_group_is_given_shown_and_taken_on_the_page() -> None:
    client, tom = signed_in(Role.ADMIN), User.objects.create_user("tom")
    RoleGrant.objects.create(user=tom, environment="dev", role=Role.VIEWER)
    form = {"role": "operator", "group": "payments", "where": "dev", "reason": REASON, "key": "g-1"}
    assert client.post(f"/settings/access/{tom.pk}/role", form).status_code == 303
    assert grants_of(tom).may("trip", "dev", "payments")
    assert not grants_of(tom).may("trip", "dev")
    assert "viewer, operator for payments" in text_of(client.get("/settings/access"))
    lead = client.get(f"/settings/access/{tom.pk}/role").context["asking"].lead
    assert left_out(lead, "viewer", "operator", "payments", "dev") == []
    assert client.post(f"/settings/access/{tom.pk}/role", form | {"role": "none", "key": "g-2"}).status_code == 303
    assert grants_of(tom).role("dev") == Role.VIEWER
    assert not grants_of(tom).may("trip", "dev", "payments")
    bad = client.post(f"/settings/access/{tom.pk}/role", form | {"group": "pay*", "key": "g-3"})
    assert faults(bad) == {"group"}
    assert not grants_of(tom).by_group


def test_an_admin_of_one_environment_sees_nobodys_roles_elsewhere() -> None:
    client, tom = signed_in(Role.ADMIN), User.objects.create_user("tom")
    RoleGrant.objects.create(user=tom, environment="prod", role=Role.EDITOR)
    assert client.get(f"/settings/access/{tom.pk}/role").status_code == 404
    RoleGrant.objects.create(user=tom, environment="dev", role=Role.VIEWER)
    page = client.get(f"/settings/access/{tom.pk}/role")
    assert left_out(page.context["asking"].lead, "viewer", "dev") == []
    assert "prod" not in text_of(page)


def test_what_concerns_every_environment_is_read_by_who_may_everywhere() -> None:
    overrides.trip(**asked(scope=SEARCH, ahead=True))
    eva = person(Role.ADMIN, "eva", EVERYWHERE)
    accounts.create_account(by=eva, environment=EVERYWHERE, reason=REASON, name="tom", role="viewer")
    one, every = signed_in(Role.ADMIN, "ana"), signed_in(Role.ADMIN, "eva", EVERYWHERE)
    assert one.get("/audit?chain=*").status_code == 403
    assert "/audit?chain=*" not in Shown(one.get("/audit")).links
    told = text_of(every.get("/audit?chain=*"))
    assert ("tom" in told, "search_web" in told, "verified" in told) == (True, False, True)
    assert "/audit?chain=*" in Shown(every.get("/audit")).links


@pytest.mark.parametrize(
    ("made", "language"),
    [
        ({"datcollate": "C"}, ""),
        ({"datcollate": "POSIX", "datlocprovider": "c"}, ""),
        ({"datcollate": "en_US.UTF-8", "datlocprovider": "c"}, "en_US.UTF-8"),
        ({"datcollate": "C.UTF-8"}, "C.UTF-8"),
        ({"datcollate": "C", "datlocprovider": "i", "daticulocale": "en-US"}, "en-US"),
        ({"datcollate": "C", "datlocprovider": "i", "datlocale": "de"}, "de"),
        ({"datcollate": "en_US.UTF-8", "datlocprovider": "b", "datlocale": "C.UTF-8"}, ""),
    ],
)
def test_a_database_that_compares_names_by_a_language_is_told(made: dict[str, str], language: str) -> None:
    assert collation_words(made) == (language and collation_words({"datcollate": language}))
    assert language in collation_words(made)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_the_health_of_a_postgresql_is_told(engine: str) -> None:
    client = signed_in(Role.ADMIN)
    said, parts = text_of(client.get("/settings/health")), standings(client)
    assert "PostgreSQL" in said
    assert "Database clock" in parts
    with connection.cursor() as cursor:
        cursor.execute("SELECT datcollate FROM pg_database WHERE datname = current_database()")
        [language] = cursor.fetchone()
    assert ("Collation" in parts, language in said) == (language not in ("C", "POSIX"),) * 2
