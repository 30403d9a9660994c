"""Emits events through a stock OpenTelemetry exporter, as its documentation sets it up: `emit.py URL TOKEN COUNT`.

Runs in environments with other versions of OpenTelemetry than ours, so it uses what all of them have: the handler of
the standard library's logging.
"""

from __future__ import annotations

import logging
import sys
import uuid
import warnings


def main(url: str, token: str, count: int) -> None:
    """Emit `count` failures and end as a program does: flush, then shut down."""
    warnings.simplefilter("ignore")
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    provider = LoggerProvider(resource=Resource({"service.name": "stock", "service.instance.id": "stock-1"}))
    headers = {"authorization": f"Bearer {token}"}
    exporter = OTLPLogExporter(endpoint=f"{url}/v1/logs", headers=headers, compression=Compression.Gzip)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter, schedule_delay_millis=100))
    logger = logging.getLogger("stock")
    logger.addHandler(LoggingHandler(level=logging.INFO, logger_provider=provider))
    logger.propagate = False
    for number in range(count):
        said = {
            "event.name": "recovery.failure_classified",
            "log.record.uid": str(uuid.uuid4()),
            "recovery.operation.name": "search",
            "recovery.failure.category": "overloaded",
            "number": number,
        }
        logger.warning("attempt %d failed", number, extra=said)
    provider.force_flush()
    provider.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
