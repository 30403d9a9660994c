// Emits events through a stock OpenTelemetry exporter for JavaScript: `node emit.mjs URL TOKEN COUNT json|protobuf`.
// Run in the directory that has the packages; `import` finds them from where the file lies, so it is copied there.
import { randomUUID } from "node:crypto";
import { SeverityNumber } from "@opentelemetry/api-logs";
import { OTLPLogExporter as AsJson } from "@opentelemetry/exporter-logs-otlp-http";
import { OTLPLogExporter as AsProtobuf } from "@opentelemetry/exporter-logs-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs";

const [url, token, count, encoding] = process.argv.slice(2);
const Exporter = encoding === "json" ? AsJson : AsProtobuf;
const exporter = new Exporter({
  url: `${url}/v1/logs`,
  headers: { authorization: `Bearer ${token}` },
  compression: encoding === "json" ? "none" : "gzip",
});
const provider = new LoggerProvider({
  resource: resourceFromAttributes({ "service.name": "stock", "service.instance.id": "stock-js" }),
  processors: [new BatchLogRecordProcessor({ exporter, scheduledDelayMillis: 100 })],
});
const logger = provider.getLogger("stock");
for (let number = 0; number < Number(count); number++) {
  logger.emit({
    eventName: "recovery.failure_classified",
    severityNumber: SeverityNumber.WARN,
    timestamp: Date.now(),
    body: `attempt ${number} failed`,
    attributes: {
      "log.record.uid": randomUUID(),
      "recovery.operation.name": "search",
      "recovery.failure.category": "overloaded",
      number,
    },
  });
}
await provider.forceFlush();
await provider.shutdown();
