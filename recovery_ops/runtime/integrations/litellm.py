"""Makes an existing LiteLLM (its Router, or `litellm.completion`) report: failures, fallbacks, tokens.

from recovery_ops.runtime.integrations.litellm import report

report(recovery, source="main_agent")
router.completion(model="large", messages=[...])  # appears as `model:large`
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from recovery_ops.rules.enums import StopReason
from recovery_ops.rules.events import FallbackActivated
from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.guards.credential_labels import is_label
from recovery_ops.runtime.integrations.model_calls import numbers
from recovery_ops.runtime.integrations.observed_calls import Watched, quietly
from recovery_ops.runtime.integrations.packages import missing

try:
    import litellm
    from litellm.integrations.custom_logger import CustomLogger
except ModuleNotFoundError as error:
    raise missing(__name__, "litellm", error) from None


def report(recovery: Recovery, *, source: str = "") -> ReportingLogger:
    """Have LiteLLM report from now on; returns what was added to `litellm.callbacks`, so that it can be removed.

    `source` says who waits: LiteLLM reports from threads of its own, which know of no run.
    """
    made = ReportingLogger(recovery, source=source)
    litellm.callbacks.append(made)
    return made


class ReportingLogger(CustomLogger):
    """A callback for LiteLLM. Each model group is the operation `model:<group>`.

    LiteLLM still decides. It tells nobody how long it waits before a retry, when a deployment cools down, or which run
    a call belongs to, so neither do we: tokens are counted for the operation and not for the run. A deployment with
    `"model_info": {"credential": "team-a"}` names its key in the failures.
    """

    def __init__(self, recovery: Recovery, *, source: str = "") -> None:
        super().__init__()
        self.identity = f"{id(recovery):x}/{source}"  # LiteLLM takes loggers that look alike for one
        self._recovery = recovery
        self._source = source
        self._watched: dict[str, Watched] = {}

    @quietly
    def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """A call succeeded."""
        watched, number, _ = self._of(kwargs)
        watched.succeeded(number, _seconds(start_time, end_time))
        sent, received = numbers(getattr(response_obj, "usage", None), "prompt_tokens", "completion_tokens")
        if sent or received:
            watched.count(input_tokens=sent, output_tokens=received)

    @quietly
    def log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """A call to one deployment failed; the router may make it again."""
        error = kwargs.get("exception")
        if isinstance(error, BaseException):
            watched, number, most = self._of(kwargs)
            model, credential = _text(kwargs.get("model")), _credential(kwargs)
            watched.failed(error, number, is_retryable=number <= most, model=model, credential=credential)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """As `log_success_event`."""
        self.log_success_event(kwargs, response_obj, start_time, end_time)

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """As `log_failure_event`."""
        self.log_failure_event(kwargs, response_obj, start_time, end_time)

    async def log_success_fallback_event(
        self, original_model_group: str, kwargs: Any, original_exception: Exception
    ) -> None:
        """Another model group answered."""
        self._fell_back(original_model_group, kwargs, original_exception)

    async def log_failure_fallback_event(
        self, original_model_group: str, kwargs: Any, original_exception: Exception
    ) -> None:
        """No model group answered."""
        self._gave_up(original_model_group, original_exception)

    @quietly
    def _fell_back(self, group: str, kwargs: Any, error: Exception) -> None:
        watched = self._group(group)
        failure = watched.failure_of(error)
        watched.tell(
            FallbackActivated(
                operation=watched.name,
                fallback=f"model:{kwargs.get('model')}",
                level=1,
                category=failure.category,
                reason=failure.category.value,
                breaker=watched.name,
            )
        )

    @quietly
    def _gave_up(self, group: str, error: Exception) -> None:
        watched = self._group(group)
        watched.gave_up(watched.failure_of(error), 1, StopReason.ATTEMPTS)

    def _of(self, kwargs: Mapping[str, Any]) -> tuple[Watched, int, int]:
        """The operation of a call, the number of its attempt, and how many retries there may be."""
        more = (kwargs.get("litellm_params") or {}).get("metadata") or {}
        retried, most = more.get("attempted_retries"), more.get("max_retries")
        group = _text(more.get("model_group")) or _text(kwargs.get("model")) or "unknown"
        watched = self._group(group, _text(kwargs.get("custom_llm_provider")))
        return watched, (retried if type(retried) is int else 0) + 1, most if type(most) is int else 0

    def _group(self, group: str, provider: str | None = None) -> Watched:
        found = self._watched.get(group)
        if found is None:
            found = self._watched[group] = Watched(self._recovery, f"model:{group}", self._source, provider)
        return found


def _credential(kwargs: Mapping[str, Any]) -> str | None:
    """The label of the deployment's key, where its `model_info` has a `credential` that does not look like a key."""
    metadata = (kwargs.get("litellm_params") or {}).get("metadata") or {}
    label = _text((metadata.get("model_info") or {}).get("credential"))
    return label if label is not None and is_label(label) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _seconds(start: object, end: object) -> float | None:
    is_known = isinstance(start, datetime) and isinstance(end, datetime)
    return round((end - start).total_seconds(), 4) if is_known else None  # type: ignore[operator]
