"""What the errors of real clients say of the retries that they made by themselves, against a server that fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import anthropic
import botocore.config
import botocore.session
import litellm
import openai
import pytest
import requests
import tenacity
import urllib3
from requests.adapters import HTTPAdapter

from recovery_ops.runtime import classify
from tests.integrations.packages.vendors import said
from tests.support.http_server import Reply, serving

ASKED = [{"role": "user", "content": "hello"}]
BUSY: Reply = said(503, {"error": {"type": "server_error", "message": "sorry"}}, retry_after_ms="1")


def by_openai(url: str) -> object:
    with openai.OpenAI(api_key="k", base_url=url, max_retries=2) as client:
        return client.chat.completions.create(model="large", messages=ASKED)


def by_anthropic(url: str) -> object:
    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=2) as client:
        return client.messages.create(model="large", max_tokens=10, messages=ASKED)


def by_boto(url: str) -> object:
    session = botocore.session.get_session()
    session.set_credentials("a", "b")
    config = botocore.config.Config(retries={"total_max_attempts": 3, "mode": "standard"}, proxies={})
    client = session.create_client("bedrock-runtime", region_name="eu-west-1", endpoint_url=url, config=config)
    with closing(client):
        return client.converse(modelId="large", messages=[{"role": "user", "content": [{"text": "hello"}]}])


def by_requests(url: str) -> object:
    retries = urllib3.Retry(2, status_forcelist=[503], allowed_methods=None, raise_on_status=False)
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", HTTPAdapter(max_retries=retries))
        session.post(url, json={}).raise_for_status()
    return None


def by_tenacity(url: str) -> object:
    @tenacity.retry(stop=tenacity.stop_after_attempt(3))
    def ask() -> object:
        with requests.Session() as session:
            session.trust_env = False
            session.post(url, json={}).raise_for_status()
        return None

    return ask()


def by_litellm(url: str) -> object:
    """By its router: the errors of `litellm.completion` say nothing of retries."""
    asked = {"model": "openai/large", "api_base": url, "api_key": "k", "max_retries": 0}
    router = litellm.Router(model_list=[{"model_name": "large", "litellm_params": asked}], num_retries=2)
    return router.completion("large", messages=ASKED)


@pytest.mark.parametrize("ask", [by_openai, by_anthropic, by_boto, by_requests, by_tenacity, by_litellm])
def test_error_of_client_says_its_retries(ask: Callable[[str], object]) -> None:
    with serving(*[BUSY] * 9) as server:
        try:
            ask(server.url)
        except Exception as error:  # each client has its own
            failure = classify(error)
        else:
            pytest.fail("it was answered")
        made = len(server.requests)
    assert made == 3
    assert failure.inner_retries == made - 1
