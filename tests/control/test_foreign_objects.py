"""Every object of one environment, asked for from another: it is not there.

`OBJECTS` names each kind of object that an address can name, by how the address begins; an address that names something
new fails until it stands there, or in `NO_OBJECTS` with the reason. One of each is made in `dev`: there it is for an
admin of `dev`, and it is not for an admin of `test`, by whatever method and with whatever is done to it.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import transaction
from django.test import Client

from tests.control.test_every_route import undrawn
from tests.support.actions import REASON
from tests.support.foreign_objects import NO_OBJECTS, OBJECTS, addresses, admin_of, answered, kind_of, routes, world
from tests.support.stories import NOW, ago

__all__ = ["world"]  # the fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


AGO = ago(60).isoformat()


def test_every_address_that_names_something_is_written_down() -> None:
    found = [route for route, _ in routes()]
    assert [route for route in found if route not in NO_OBJECTS and not kind_of(route)] == []
    assert [route for route in NO_OBJECTS if route not in found] == []
    assert {kind_of(route) for route in found} - {""} == set(OBJECTS.values())


def test_an_object_of_elsewhere_is_nowhere(world: dict[str, str]) -> None:
    ours, theirs = admin_of("dev"), admin_of("test")
    shown, found, missing = [], [], []
    for address in addresses(world):
        for method in address.methods():
            with undrawn():
                here = answered(ours, address, method, "dev")
            if here == 405:
                continue
            if here == 404:
                missing.append((method, address.path))
            status = answered(theirs, address, method, "test")
            if status != 404:
                found.append((method, address.path, status))
            if answered(theirs, address, method, "dev") not in (403, 404):
                shown.append((method, address.path))
    assert missing == [], "what is not there for anybody proves nothing"
    assert found == []
    assert shown == []


NAMED_IN_BODIES: dict[str, dict[str, Any]] = {
    "/escalations/act/resolve": {"number": "escalation"},
    "/failures/act/resolve": {"fingerprint": "cause"},
    "/failures/act/escalate": {
        "fingerprint": "cause",
        "queue": "=owners",
        "question": "=Is that the vendor's?",
    },
    "/breakers/search_web/release": {"override": "override"},
    "/api/v1/escalations": {"verb": "=resolve", "numbers": ["escalation"]},
    "/api/v1/failures": {"verb": "=resolve", "fingerprints": ["cause"]},
    "/api/v1/failures/escalate": {
        "fingerprint": "cause",
        "queue": "=owners",
        "question": "=Is that the vendor's?",
    },
    "/api/v1/policies/golden": {"run": "run", "name": "=again", "must": "=it ends well"},
    "/api/v1/breakers/search_web/release": {"override_id": "override"},
    "/api/v1/breakers/search_web/extend": {"override_id": "override", "expires_in_s": 7200.0},
    "/api/v1/policies/replays": {"proposal": "proposal", "start": f"={AGO}", "end": f"={NOW.isoformat()}"},
}
"""What is done to objects that the body names, by the kind of each; `=` begins a word that names nothing."""


def test_nothing_is_done_to_an_object_of_elsewhere_that_a_body_names(world: dict[str, str]) -> None:
    ours, theirs, before = admin_of("dev"), admin_of("test"), _rows()
    refused, done = [], []
    for path, fields in NAMED_IN_BODIES.items():
        if not _is_done(ours, path, fields, world, "dev"):
            refused.append(path)
        if _is_done(theirs, path, fields, world, "test"):
            done.append(path)
    assert refused == [], "what nobody may do proves nothing"
    assert done == []
    assert _rows() == before


def _is_done(client: Client, path: str, fields: dict[str, Any], world: dict[str, str], environment: str) -> bool:
    """Whether what a body asks for is done, to any of those that it names. What the owner does is undone."""
    body = {"reason": REASON} | {name: _filled(one, world) for name, one in fields.items()}
    place = f"{path}?environment={environment}"
    with transaction.atomic():
        if path.startswith("/api/"):
            answer = client.post(place, body, "application/json")
            results = answer.json().get("results", ())
        else:
            answer, results = client.post(place, body | {"environment": environment}), ()
        transaction.set_rollback(environment == "dev")
    is_nothing = results and all("problem" in one for one in results)
    return answer.status_code < 400 and not is_nothing


def _filled(given: Any, world: dict[str, str]) -> Any:
    if isinstance(given, list):
        return [_filled(one, world) for one in given]
    if not isinstance(given, str):
        return given
    found = given[1:] if given.startswith("=") else world[given]
    return int(found) if found.isdigit() else found


def _rows() -> dict[str, list[Any]]:
    """All that people have made in `dev`."""
    made = [one for one in apps.get_models() if one._meta.app_label in ("control", "events")]
    ours = [one for one in made if any(field.name == "environment" for field in one._meta.fields)]
    found = {one.__name__: one._default_manager.filter(environment="dev").order_by("pk").values() for one in ours}
    return {name: list(rows) for name, rows in found.items()}
