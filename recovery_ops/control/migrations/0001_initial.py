import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import events.store.migration_operations
import recovery_ops.control.agents.models.pauses
import recovery_ops.control.breakers.models.load_shedding
import recovery_ops.control.breakers.models.overrides
import recovery_ops.control.runs.models.retries


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("account", "0009_emailaddress_unique_primary_email"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("mfa", "0003_authenticator_type_uniq"),
        ("sessions", "0001_initial"),
        ("socialaccount", "0006_alter_socialaccount_extra_data"),
        ("usersessions", "0001_initial"),
    ]

    operations = [
        events.store.migration_operations.CreateModels(
            operations=[
                migrations.CreateModel(
                    name="AuditHead",
                    fields=[
                        ("environment", models.CharField(max_length=64, primary_key=True, serialize=False)),
                        ("number", models.BigIntegerField(default=0)),
                        ("hash", models.CharField(default="", max_length=64)),
                    ],
                ),
                migrations.CreateModel(
                    name="Beat",
                    fields=[
                        ("name", models.CharField(max_length=200, primary_key=True, serialize=False)),
                        ("at", models.DateTimeField()),
                        ("took_s", models.FloatField(null=True)),
                        ("place", models.CharField(default="", help_text="The process that did it.", max_length=200)),
                        ("failed_at", models.DateTimeField(null=True)),
                        ("failure", models.CharField(default="", max_length=300)),
                    ],
                ),
                migrations.CreateModel(
                    name="CacheEntry",
                    fields=[
                        ("cache_key", models.CharField(max_length=255, primary_key=True, serialize=False)),
                        ("value", models.TextField()),
                        ("expires", models.DateTimeField(db_index=True)),
                    ],
                    options={
                        "db_table": "control_cacheentry",
                    },
                ),
                migrations.CreateModel(
                    name="Demonstration",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64, unique=True)),
                        ("history_start", models.DateTimeField()),
                        ("history_end", models.DateTimeField(help_text="What happened before was generated.")),
                        ("removed_at", models.DateTimeField(help_text="When a user had it removed.", null=True)),
                        (
                            "emptied_at",
                            models.DateTimeField(help_text="When the last of its data was deleted.", null=True),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="EnvironmentRules",
                    fields=[
                        ("environment", models.CharField(max_length=64, primary_key=True, serialize=False)),
                        ("is_production", models.BooleanField(null=True)),
                        ("is_review_needed", models.BooleanField(null=True)),
                        (
                            "is_second_needed",
                            models.BooleanField(
                                db_default=False, default=False, help_text="What reaches everybody takes two persons."
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="NotifyLook",
                    fields=[
                        ("environment", models.CharField(max_length=64, primary_key=True, serialize=False)),
                        ("at", models.DateTimeField(null=True)),
                        ("failures_at", models.DateTimeField(null=True)),
                        ("burns_at", models.DateTimeField(null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="Revision",
                    fields=[
                        ("environment", models.CharField(max_length=64, primary_key=True, serialize=False)),
                        ("number", models.BigIntegerField(default=0)),
                        ("changed_at", models.DateTimeField()),
                    ],
                ),
                migrations.CreateModel(
                    name="AuditEntry",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("number", models.BigIntegerField()),
                        ("at", models.DateTimeField()),
                        ("actor_kind", models.CharField(max_length=8)),
                        ("actor_name", models.CharField(max_length=200)),
                        ("actor_id", models.CharField(default="", max_length=32)),
                        ("verb", models.CharField(max_length=40)),
                        ("object", models.CharField(max_length=800)),
                        ("operation", models.CharField(blank=True, default="", max_length=200)),
                        ("reason", models.CharField(default="", max_length=500)),
                        ("before_text", models.TextField(default="null")),
                        ("after_text", models.TextField(default="null")),
                        ("revision", models.BigIntegerField(null=True)),
                        ("result", models.CharField(default="ok", max_length=8)),
                        ("code", models.CharField(default="", help_text="Why it was refused.", max_length=40)),
                        ("channel", models.CharField(max_length=8)),
                        ("ip", models.CharField(default="", max_length=64)),
                        ("user_agent", models.CharField(default="", max_length=300)),
                        ("request_id", models.CharField(default="", max_length=64)),
                        ("key", models.CharField(max_length=64, null=True)),
                        ("hash", models.CharField(max_length=64)),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["environment", "revision"], name="audit_by_revision"),
                            models.Index(fields=["environment", "operation", "number"], name="audit_by_operation"),
                            models.Index(fields=["environment", "at", "number"], name="audit_by_time"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "number"), name="audit_number_once"),
                            models.UniqueConstraint(fields=("environment", "key"), name="audit_key_once"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="BurnAlert",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("operation", models.CharField(max_length=200)),
                        (
                            "burn",
                            models.CharField(help_text="The name of a row of rules.burning.BURNS.", max_length=16),
                        ),
                        ("budget", models.FloatField(help_text="The share of calls that may be retries.")),
                        ("began_at", models.DateTimeField()),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("worst", models.FloatField(help_text="The highest rate of the long window.")),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "began_at"], name="burn_alert_by_start")],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at", None)),
                                fields=("environment", "operation", "burn"),
                                name="burn_alert_open_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CapacityNote",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("event", models.BigIntegerField(help_text="The number of the capacity event.")),
                        ("at", models.DateTimeField()),
                        ("by", models.CharField(max_length=200)),
                        ("text", models.CharField(max_length=500)),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "event", "at"], name="capacity_note_by_event")],
                    },
                ),
                migrations.CreateModel(
                    name="Channel",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("name", models.CharField(max_length=200)),
                        ("is_on", models.BooleanField(default=True)),
                        ("version", models.IntegerField(default=1)),
                        ("changed_at", models.DateTimeField()),
                        ("changed_by", models.CharField(max_length=200)),
                        ("removed_at", models.DateTimeField(null=True)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("slack", "Slack"),
                                    ("webhook", "Webhook"),
                                    ("email", "E-mail"),
                                    ("pagerduty", "PagerDuty"),
                                    ("people", "E-mail to users"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("address", models.CharField(blank=True, default="", max_length=2000)),
                        ("secret", models.CharField(blank=True, default="", max_length=500)),
                        (
                            "credentials",
                            models.IntegerField(default=0, help_text="How often address or secret was set."),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("removed_at", None)),
                                fields=("environment", "name"),
                                name="channel_name_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Delivery",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("origin", models.CharField(max_length=300)),
                        (
                            "person",
                            models.CharField(
                                blank=True, default="", help_text="Whom it is written to.", max_length=200
                            ),
                        ),
                        (
                            "lane",
                            models.CharField(
                                help_text="Messages of one lane of a channel go out in order.", max_length=300
                            ),
                        ),
                        ("phase", models.CharField(max_length=16)),
                        ("severity", models.CharField(max_length=16)),
                        ("title", models.CharField(max_length=300)),
                        ("lines", models.JSONField(default=list)),
                        (
                            "things",
                            models.JSONField(
                                default=list,
                                help_text="What a message of several tells of each, as control.notify.formats reads it.",
                            ),
                        ),
                        ("path", models.CharField(blank=True, default="", max_length=300)),
                        ("made_at", models.DateTimeField()),
                        ("not_before", models.DateTimeField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("claimed", "claimed"),
                                    ("sending", "sending"),
                                    ("sent", "sent"),
                                    ("failed", "failed"),
                                    ("unknown", "unknown"),
                                    ("dropped", "dropped"),
                                ],
                                default="waiting",
                                max_length=16,
                            ),
                        ),
                        ("tries", models.IntegerField(default=0)),
                        ("claim", models.CharField(blank=True, default="", max_length=40)),
                        ("lease_until", models.DateTimeField(null=True)),
                        ("tried_at", models.DateTimeField(null=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("status_code", models.IntegerField(null=True)),
                        ("problem", models.CharField(blank=True, default="", max_length=1000)),
                        (
                            "channel",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="deliveries",
                                to="control.channel",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state__in", ("waiting", "claimed", "sending"))),
                                fields=["not_before"],
                                name="delivery_unfinished",
                            ),
                            models.Index(fields=["environment", "made_at"], name="delivery_by_time"),
                            models.Index(fields=["origin", "made_at"], name="delivery_by_origin"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Digest",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("is_on", models.BooleanField(default=True)),
                        (
                            "every",
                            models.CharField(
                                choices=[("daily", "daily"), ("weekly", "weekly")], default="daily", max_length=8
                            ),
                        ),
                        ("weekday", models.SmallIntegerField(default=0, help_text="Of a weekly one, from Monday, 0.")),
                        ("at", models.TimeField()),
                        ("zone", models.CharField(default="UTC", max_length=64)),
                        (
                            "tells_calm",
                            models.BooleanField(
                                default=False, help_text="Whether it says so in one line when nothing is down."
                            ),
                        ),
                        ("since", models.DateTimeField()),
                        ("version", models.IntegerField(default=1)),
                        ("changed_at", models.DateTimeField()),
                        ("changed_by", models.CharField(max_length=200)),
                        (
                            "channel",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.PROTECT, related_name="digest", to="control.channel"
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Escalation",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        (
                            "key",
                            models.CharField(
                                help_text="A digest of what makes two facts ask the same question.", max_length=32
                            ),
                        ),
                        ("ticket", models.CharField(blank=True, default="", max_length=200)),
                        ("queue", models.CharField(blank=True, default="", max_length=200)),
                        ("reason", models.CharField(blank=True, default="", max_length=200)),
                        ("category", models.CharField(blank=True, default="", max_length=32)),
                        (
                            "fingerprint",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="The cause of failures that a person asked about.",
                                max_length=401,
                            ),
                        ),
                        (
                            "capacity_event",
                            models.BigIntegerField(
                                help_text="The number of the capacity event that a person asked about.", null=True
                            ),
                        ),
                        ("operation", models.CharField(blank=True, default="", max_length=200)),
                        ("message", models.CharField(blank=True, default="", max_length=1000)),
                        (
                            "proposal",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="What is done if it is approved.",
                                max_length=4000,
                            ),
                        ),
                        ("service", models.CharField(blank=True, default="", max_length=200)),
                        ("instances", models.JSONField(default=list, help_text="The first twenty that asked.")),
                        ("runs", models.JSONField(default=list, help_text="The first twenty that asked.")),
                        (
                            "saved_runs",
                            models.IntegerField(
                                help_text="Of how many of them a checkpoint is known, where silence leaves them stopped.",
                                null=True,
                            ),
                        ),
                        ("occurrences", models.IntegerField(default=0)),
                        ("opened_at", models.DateTimeField()),
                        ("seen_at", models.DateTimeField(help_text="When the newest fact that asks it happened.")),
                        ("acknowledge_by", models.DateTimeField()),
                        ("resolve_by", models.DateTimeField()),
                        (
                            "severity",
                            models.CharField(
                                default="normal", help_text="As the policy said when it was opened.", max_length=16
                            ),
                        ),
                        (
                            "acknowledge_in_s",
                            models.FloatField(
                                default=900.0, help_text="Seconds; as the policy said when it was opened."
                            ),
                        ),
                        (
                            "resolve_in_s",
                            models.FloatField(
                                default=1800.0, help_text="Seconds; of a run that waits, how long it does."
                            ),
                        ),
                        ("default_action", models.CharField(blank=True, default="", max_length=32)),
                        ("default_done_at", models.DateTimeField(null=True)),
                        ("acknowledged_at", models.DateTimeField(null=True)),
                        ("acknowledged_by", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "first_acknowledged_at",
                            models.DateTimeField(help_text="Stays when an acknowledgement expires.", null=True),
                        ),
                        ("assigned_to", models.CharField(blank=True, default="", max_length=200)),
                        ("snoozed_until", models.DateTimeField(null=True)),
                        (
                            "labels",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="`|billing|vip|`; empty for none.",
                                max_length=411,
                            ),
                        ),
                        ("resolved_at", models.DateTimeField(null=True)),
                        ("resolved_by", models.CharField(blank=True, default="", max_length=200)),
                        ("resolution", models.CharField(blank=True, default="", max_length=16)),
                        (
                            "answer",
                            models.CharField(
                                blank=True, default="", help_text="What goes back to the run.", max_length=4000
                            ),
                        ),
                        (
                            "revision",
                            models.BigIntegerField(help_text="Under which the answer went to the agents.", null=True),
                        ),
                        ("version", models.IntegerField(default=1)),
                        (
                            "assignee",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "merged_into",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="control.escalation",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["environment", "resolved_at"], name="escalation_by_end"),
                            models.Index(
                                condition=models.Q(("resolved_at", None)), fields=["resolve_by"], name="escalation_due"
                            ),
                            models.Index(
                                condition=models.Q(("fingerprint__gt", "")),
                                fields=["environment", "fingerprint"],
                                name="escalation_by_cause",
                            ),
                            models.Index(
                                condition=models.Q(("capacity_event__isnull", False)),
                                fields=["environment", "capacity_event"],
                                name="escalation_by_outage",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("resolved_at", None)),
                                fields=("environment", "key"),
                                name="escalation_open_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="EscalationChain",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("name", models.CharField(max_length=200)),
                        ("is_on", models.BooleanField(default=True)),
                        ("version", models.IntegerField(default=1)),
                        ("changed_at", models.DateTimeField()),
                        ("changed_by", models.CharField(max_length=200)),
                        ("removed_at", models.DateTimeField(null=True)),
                        ("since", models.DateTimeField()),
                        ("steps", models.JSONField(default=list, help_text="As rules.chains.parse_steps reads them.")),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("removed_at", None)),
                                fields=("environment", "name"),
                                name="escalation_chain_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="EscalationNote",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("at", models.DateTimeField()),
                        ("by", models.CharField(max_length=200)),
                        ("verb", models.CharField(max_length=20)),
                        ("text", models.CharField(blank=True, default="", max_length=500)),
                        (
                            "happened_at",
                            models.DateTimeField(
                                help_text="Of an entry by hand: when it was, where that is not `at`.", null=True
                            ),
                        ),
                        (
                            "chain_s",
                            models.FloatField(
                                help_text="Of a step asked at once: how far the chain's clock then is.", null=True
                            ),
                        ),
                        (
                            "escalation",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="notes",
                                to="control.escalation",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["escalation", "at"], name="escalation_note_by_time")],
                    },
                ),
                migrations.CreateModel(
                    name="EscalationSource",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("uid", models.BinaryField(max_length=16)),
                        ("at", models.DateTimeField()),
                        (
                            "escalation",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="sources",
                                to="control.escalation",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "uid"), name="escalation_source_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Export",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("number", models.IntegerField()),
                        ("by", models.CharField(max_length=200)),
                        ("asked_at", models.DateTimeField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("running", "running"),
                                    ("done", "done"),
                                    ("failed", "failed"),
                                    ("cancelled", "cancelled"),
                                ],
                                default="waiting",
                                max_length=16,
                            ),
                        ),
                        ("started_at", models.DateTimeField(blank=True, null=True)),
                        ("beat_at", models.DateTimeField(blank=True, null=True)),
                        ("finished_at", models.DateTimeField(blank=True, null=True)),
                        ("is_cancel_asked", models.BooleanField(default=False)),
                        ("problem", models.CharField(blank=True, default="", max_length=1000)),
                        ("what", models.CharField(max_length=16)),
                        ("kind", models.CharField(max_length=8)),
                        ("query", models.TextField(help_text="What narrows the list, as its address says it.")),
                        ("address", models.TextField(help_text="Where a browser sees the same.")),
                        ("columns", models.JSONField(default=list, help_text="Empty: all of them.")),
                        ("start_at", models.DateTimeField(null=True)),
                        ("end_at", models.DateTimeField(null=True)),
                        ("key_prefix", models.CharField(blank=True, default="", max_length=16)),
                        ("done", models.BigIntegerField(default=0)),
                        ("total", models.BigIntegerField(default=0)),
                        ("rows", models.BigIntegerField(default=0)),
                        ("size_bytes", models.BigIntegerField(default=0)),
                        (
                            "is_cut",
                            models.BooleanField(default=False, help_text="There was more than fits into one file."),
                        ),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "waiting")), fields=["asked_at"], name="export_waiting"
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "number"), name="export_number_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ExportPart",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("number", models.IntegerField()),
                        ("content", models.BinaryField(help_text="gzip")),
                        (
                            "export",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, related_name="parts", to="control.export"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [models.UniqueConstraint(fields=("export", "number"), name="export_part_once")],
                    },
                ),
                migrations.CreateModel(
                    name="FailureCase",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("fingerprint", models.CharField(max_length=401)),
                        ("version", models.IntegerField(default=0)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("open", "open"),
                                    ("archived", "archived"),
                                    ("resolved", "resolved"),
                                    ("regressed", "regressed"),
                                    ("pending", "pending"),
                                ],
                                default="open",
                                max_length=16,
                            ),
                        ),
                        ("assigned_to", models.CharField(blank=True, default="", max_length=200)),
                        ("decided_at", models.DateTimeField()),
                        ("decided_by", models.CharField(blank=True, default="", max_length=200)),
                        ("reason", models.CharField(blank=True, default="", max_length=500)),
                        ("archived_until", models.DateTimeField(null=True)),
                        (
                            "archived_more",
                            models.IntegerField(
                                help_text="It comes back when it has failed so often again.", null=True
                            ),
                        ),
                        (
                            "archived_usual",
                            models.IntegerField(
                                help_text="It comes back when it escalates: so many failures its busiest hour of the day before had.",
                                null=True,
                            ),
                        ),
                        (
                            "hour_began",
                            models.DateTimeField(help_text="Since when failures are counted for that.", null=True),
                        ),
                        ("hour_seen", models.IntegerField(default=0, help_text="Failures that came in since then.")),
                        (
                            "versions",
                            models.JSONField(
                                help_text="It is resolved in the next version: service → the versions known when that was said.",
                                null=True,
                            ),
                        ),
                        (
                            "clean_needed",
                            models.IntegerField(
                                help_text="Pending: it is resolved after so many clean runs, one after the other.",
                                null=True,
                            ),
                        ),
                        (
                            "clean_seen",
                            models.IntegerField(
                                db_default=0,
                                default=0,
                                help_text="Clean runs since it was decided, or since it failed last.",
                            ),
                        ),
                        (
                            "clean_operations",
                            models.JSONField(help_text="The operations that it failed in.", null=True),
                        ),
                        (
                            "clean_agents",
                            models.JSONField(
                                help_text="Instances (agents' numbers) that called one since then.", null=True
                            ),
                        ),
                        (
                            "seen_more",
                            models.IntegerField(default=0, help_text="Failures that came in since it was decided."),
                        ),
                        (
                            "counted_to",
                            models.BigIntegerField(
                                default=0, help_text="The number of the last fact counted for that."
                            ),
                        ),
                        (
                            "assignee",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "state"], name="failure_case_by_state")],
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "fingerprint"), name="failure_case_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="FailureGrouping",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("kind", models.CharField(choices=[("merge", "merge"), ("split", "split")], max_length=8)),
                        ("fingerprint", models.CharField(max_length=401)),
                        ("into", models.CharField(help_text="The cause they belong to from then on.", max_length=401)),
                        (
                            "field",
                            models.CharField(
                                blank=True, default="", help_text="Of a split: what tells them apart.", max_length=16
                            ),
                        ),
                        ("value", models.CharField(blank=True, default="", max_length=401)),
                        ("made_at", models.DateTimeField()),
                        ("made_by", models.CharField(blank=True, default="", max_length=200)),
                        ("reason", models.CharField(max_length=500)),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("ended_by", models.CharField(blank=True, default="", max_length=200)),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "ended_at"], name="failure_grouping_in_force")],
                    },
                ),
                migrations.CreateModel(
                    name="FailureNote",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("fingerprint", models.CharField(max_length=401)),
                        ("at", models.DateTimeField()),
                        ("by", models.CharField(max_length=200)),
                        ("text", models.CharField(max_length=500)),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["environment", "fingerprint", "at"], name="failure_note_by_cause")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="GoldenCase",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("number", models.IntegerField()),
                        ("name", models.CharField(max_length=200)),
                        ("must", models.CharField(help_text="What must stay true, in words.", max_length=500)),
                        ("run", models.CharField(max_length=200)),
                        ("service", models.CharField(blank=True, default="", max_length=200)),
                        ("instance", models.CharField(blank=True, default="", max_length=200)),
                        ("group", models.CharField(blank=True, default="", max_length=200)),
                        ("start_us", models.BigIntegerField()),
                        ("facts", models.JSONField()),
                        ("base_version", models.CharField(max_length=32)),
                        ("base_document", models.JSONField()),
                        ("expected", models.JSONField()),
                        ("by", models.CharField(max_length=200)),
                        ("created_at", models.DateTimeField()),
                        ("retired_at", models.DateTimeField(blank=True, null=True)),
                        ("retired_by", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "number"), name="golden_number_once"),
                            models.UniqueConstraint(
                                condition=models.Q(("retired_at__isnull", True)),
                                fields=("environment", "run"),
                                name="golden_run_once",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="InstanceLabels",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("service", models.CharField(blank=True, default="", max_length=200)),
                        ("instance", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "labels",
                            models.CharField(
                                blank=True, default="", help_text="`|canary|vip|`; empty for none.", max_length=411
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "service", "instance"), name="instance_labels_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="LoadShed",
                    fields=[
                        (
                            "id",
                            models.CharField(
                                default=recovery_ops.control.breakers.models.load_shedding.new_shed_id,
                                max_length=16,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        (
                            "least",
                            models.CharField(
                                choices=[
                                    ("critical_plus", "critical_plus"),
                                    ("critical", "critical"),
                                    ("sheddable_plus", "sheddable_plus"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("starts_at", models.DateTimeField()),
                        ("expires_at", models.DateTimeField()),
                        ("revision", models.BigIntegerField()),
                        ("ended_at", models.DateTimeField(blank=True, null=True)),
                        ("ended_by", models.CharField(blank=True, default="", max_length=200)),
                        ("end_reason", models.CharField(blank=True, default="", max_length=500)),
                        ("end_revision", models.BigIntegerField(blank=True, null=True)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=["expires_at"],
                                name="load_shed_due",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=("environment", "starts_at"),
                                name="load_shed_once_live",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="NoticeSnooze",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("provider", models.CharField(blank=True, default="", max_length=200)),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("started_at", models.DateTimeField()),
                        ("expires_at", models.DateTimeField()),
                        ("ended_at", models.DateTimeField(blank=True, null=True)),
                        ("ended_by", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at", None)),
                                fields=("environment", "provider"),
                                name="notice_snooze_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="NotificationRule",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("name", models.CharField(max_length=200)),
                        ("is_on", models.BooleanField(default=True)),
                        ("version", models.IntegerField(default=1)),
                        ("changed_at", models.DateTimeField()),
                        ("changed_by", models.CharField(max_length=200)),
                        ("removed_at", models.DateTimeField(null=True)),
                        ("triggers", models.JSONField(default=list, help_text="Words of control.notify.triggers.")),
                        ("operation", models.CharField(blank=True, default="*", max_length=200)),
                        ("queue", models.CharField(blank=True, default="*", max_length=200)),
                        (
                            "causes",
                            models.JSONField(
                                db_default=models.Value([], models.JSONField()),
                                default=list,
                                help_text="Fingerprints of failures it is about alone.",
                            ),
                        ),
                        (
                            "providers",
                            models.JSONField(
                                db_default=models.Value([], models.JSONField()),
                                default=list,
                                help_text="Names or patterns of providers.",
                            ),
                        ),
                        (
                            "person",
                            models.CharField(
                                blank=True,
                                db_default="",
                                default="",
                                help_text="Who is told alone: who watches this.",
                                max_length=200,
                            ),
                        ),
                        ("least_severity", models.CharField(default="info", max_length=16)),
                        (
                            "failures",
                            models.IntegerField(default=100, help_text="N in T: so many failures of one operation …"),
                        ),
                        ("within_min", models.IntegerField(default=5, help_text="… in so many minutes.")),
                        ("expiry_lead_min", models.IntegerField(default=10)),
                        ("group_s", models.IntegerField(default=10)),
                        ("quiet_from", models.TimeField(null=True)),
                        ("quiet_to", models.TimeField(null=True)),
                        ("quiet_zone", models.CharField(default="UTC", max_length=64)),
                        ("quiet_passes", models.CharField(default="critical", max_length=16)),
                        ("since", models.DateTimeField()),
                        (
                            "channel",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="rules", to="control.channel"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("removed_at", None)),
                                fields=("environment", "name"),
                                name="notification_rule_name_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Notification",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("origin", models.CharField(help_text="`rule:7`, or `chain:12` for ESC-12.", max_length=300)),
                        ("event", models.CharField(max_length=300)),
                        ("kind", models.CharField(max_length=32)),
                        ("phase", models.CharField(max_length=16)),
                        ("subject", models.CharField(max_length=300)),
                        ("severity", models.CharField(max_length=16)),
                        ("is_flappy", models.BooleanField(default=False)),
                        ("at", models.DateTimeField()),
                        ("found_at", models.DateTimeField()),
                        ("title", models.CharField(max_length=300)),
                        ("text", models.CharField(blank=True, default="", max_length=1000)),
                        ("path", models.CharField(blank=True, default="", max_length=300)),
                        ("is_open", models.BooleanField(default=False)),
                        (
                            "channel",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="control.channel"
                            ),
                        ),
                        (
                            "delivery",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="notifications",
                                to="control.delivery",
                            ),
                        ),
                        (
                            "snooze",
                            models.ForeignKey(
                                help_text="What holds it back.",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="notices",
                                to="control.noticesnooze",
                            ),
                        ),
                        (
                            "rule",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="control.notificationrule",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["environment", "at"], name="notification_by_time"),
                            models.Index(
                                condition=models.Q(("delivery", None)), fields=["environment"], name="notification_held"
                            ),
                            models.Index(
                                condition=models.Q(("is_open", True)), fields=["environment"], name="notification_open"
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("origin", "event", "kind"), name="notification_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="OpampAgent",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("uid", models.CharField(max_length=32)),
                        ("service", models.CharField(blank=True, default="", max_length=200)),
                        ("instance", models.CharField(blank=True, default="", max_length=200)),
                        ("group", models.CharField(blank=True, default="", max_length=200)),
                        ("version", models.CharField(blank=True, default="", max_length=200)),
                        ("sequence_number", models.DecimalField(decimal_places=0, max_digits=20)),
                        ("first_at", models.DateTimeField()),
                        ("seen_at", models.DateTimeField()),
                        ("beat_at", models.DateTimeField(blank=True, null=True)),
                        ("reported_hash", models.CharField(blank=True, default="", max_length=256)),
                        ("reported_status", models.IntegerField(default=0)),
                        ("reported_text", models.TextField(blank=True, default="")),
                        ("failed_hashes", models.JSONField(blank=True, default=list)),
                        ("applied_revision", models.BigIntegerField(default=0)),
                        ("applied_hash", models.CharField(blank=True, default="", max_length=64)),
                        ("effective_digest", models.CharField(blank=True, default="", max_length=64)),
                        ("fact_number", models.BigIntegerField(default=0)),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "seen_at"], name="opamp_agent_seen")],
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "uid"), name="opamp_agent_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Override",
                    fields=[
                        ("service", models.CharField(blank=True, default="*", max_length=200)),
                        ("operation", models.CharField(blank=True, default="*", max_length=200)),
                        ("instance", models.CharField(blank=True, default="*", max_length=200)),
                        ("group", models.CharField(blank=True, default="*", max_length=200)),
                        (
                            "id",
                            models.CharField(
                                default=recovery_ops.control.breakers.models.overrides.new_override_id,
                                max_length=16,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        (
                            "mode",
                            models.CharField(
                                choices=[
                                    ("forced_open", "forced_open"),
                                    ("disabled", "disabled"),
                                    ("metrics_only", "metrics_only"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("starts_at", models.DateTimeField()),
                        ("expires_at", models.DateTimeField()),
                        ("revision", models.BigIntegerField()),
                        ("ramp_s", models.FloatField(default=0.0)),
                        ("rule", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "spares",
                            models.JSONField(
                                blank=True, default=dict, help_text="Whom it lets out: as rules.cohorts.Spared."
                            ),
                        ),
                        ("ended_at", models.DateTimeField(blank=True, null=True)),
                        ("ended_by", models.CharField(blank=True, default="", max_length=200)),
                        ("end_reason", models.CharField(blank=True, default="", max_length=500)),
                        ("end_revision", models.BigIntegerField(blank=True, null=True)),
                        ("is_ended_by_person", models.BooleanField(default=False)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=["expires_at"],
                                name="override_due",
                            ),
                            models.Index(fields=["environment", "operation", "starts_at"], name="override_history"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=("environment", "operation", "service", "instance", "group", "starts_at"),
                                name="override_once_begun",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PolicyProposal",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("number", models.IntegerField()),
                        ("title", models.CharField(max_length=120)),
                        ("document", models.JSONField()),
                        (
                            "base_version",
                            models.CharField(
                                help_text="The live version that the document was made from.", max_length=32
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("draft", "draft"),
                                    ("in_review", "in_review"),
                                    ("approved", "approved"),
                                    ("scheduled", "scheduled"),
                                    ("rolling_out", "rolling_out"),
                                    ("live", "live"),
                                    ("superseded", "superseded"),
                                    ("rolled_back", "rolled_back"),
                                    ("rejected", "rejected"),
                                ],
                                default="draft",
                                max_length=16,
                            ),
                        ),
                        ("edition", models.IntegerField(default=1)),
                        ("step", models.IntegerField(default=1)),
                        ("authors", models.JSONField(default=list)),
                        ("by", models.CharField(blank=True, default="", max_length=200)),
                        ("created_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField()),
                        ("approved_by", models.CharField(blank=True, default="", max_length=200)),
                        ("approved_at", models.DateTimeField(blank=True, null=True)),
                        ("go_live_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "cohort",
                            models.JSONField(
                                blank=True,
                                help_text="To whom it goes first when its hour has come; null: to all.",
                                null=True,
                            ),
                        ),
                        (
                            "golden_accepted",
                            models.JSONField(
                                default=list, help_text="Golden runs that this edition changes, as is meant."
                            ),
                        ),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "scheduled")), fields=["go_live_at"], name="proposal_due"
                            ),
                            models.Index(fields=["environment", "state"], name="proposal_by_state"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "number"), name="proposal_number_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="GoldenResult",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("edition", models.IntegerField()),
                        (
                            "difference",
                            models.CharField(
                                blank=True, default="", help_text="Empty: it stays as it is.", max_length=500
                            ),
                        ),
                        (
                            "case",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="results",
                                to="control.goldencase",
                            ),
                        ),
                        (
                            "proposal",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="golden_results",
                                to="control.policyproposal",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("case", "proposal", "edition"), name="golden_result_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Feedback",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("number", models.IntegerField()),
                        ("operation", models.CharField(max_length=200)),
                        ("service", models.CharField(blank=True, default="", max_length=200)),
                        ("run", models.CharField(blank=True, default="", max_length=200)),
                        ("fingerprint", models.CharField(blank=True, default="", max_length=200)),
                        ("want", models.CharField(max_length=32)),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("at", models.DateTimeField()),
                        (
                            "state",
                            models.CharField(
                                choices=[("open", "open"), ("proposed", "proposed"), ("closed", "closed")],
                                default="open",
                                max_length=16,
                            ),
                        ),
                        ("ended_by", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "proposal",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="feedback",
                                to="control.policyproposal",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "state"], name="feedback_by_state")],
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "number"), name="feedback_number_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PolicyRelease",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("version", models.IntegerField()),
                        ("document", models.JSONField()),
                        ("summary", models.CharField(max_length=500)),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("created_at", models.DateTimeField()),
                        ("revision", models.BigIntegerField(help_text="With which it went live.")),
                        (
                            "returns_to",
                            models.IntegerField(
                                help_text="The version whose document it repeats: a rollback.", null=True
                            ),
                        ),
                        (
                            "is_break_glass",
                            models.BooleanField(
                                default=False, help_text="Nobody had approved it, where somebody should have."
                            ),
                        ),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "proposal",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="releases",
                                to="control.policyproposal",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "version"), name="policy_version_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="BreakGlassReview",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("by", models.CharField(blank=True, default="", max_length=200)),
                        ("at", models.DateTimeField()),
                        ("reason", models.CharField(max_length=500)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "release",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="review",
                                to="control.policyrelease",
                            ),
                        ),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="PolicyRollout",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("number", models.IntegerField()),
                        ("document", models.JSONField()),
                        (
                            "base_version",
                            models.CharField(help_text="What everybody else obeys meanwhile.", max_length=32),
                        ),
                        ("service", models.CharField(blank=True, default="*", max_length=200)),
                        ("group", models.CharField(blank=True, default="*", max_length=200)),
                        ("share", models.FloatField(help_text="Above 0, up to 1.")),
                        ("salt", models.CharField(max_length=200)),
                        ("limit", models.BigIntegerField(help_text="Of the places of rules.cohorts.")),
                        ("least_calls", models.IntegerField(default=50)),
                        ("is_break_glass", models.BooleanField(default=False)),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("revision", models.BigIntegerField(help_text="With which it began.")),
                        ("started_at", models.DateTimeField()),
                        ("ends_at", models.DateTimeField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("running", "running"),
                                    ("promoted", "promoted"),
                                    ("rolled_back", "rolled_back"),
                                ],
                                default="running",
                                max_length=16,
                            ),
                        ),
                        ("step", models.IntegerField(default=1)),
                        (
                            "health",
                            models.CharField(
                                blank=True, default="", help_text="A word of rules.health.Health.", max_length=16
                            ),
                        ),
                        ("said", models.CharField(blank=True, default="", max_length=1000)),
                        ("figures", models.JSONField(default=dict)),
                        ("judged_at", models.DateTimeField(blank=True, null=True)),
                        ("ended_at", models.DateTimeField(blank=True, null=True)),
                        ("ended_by", models.CharField(blank=True, default="", max_length=200)),
                        ("end_reason", models.CharField(blank=True, default="", max_length=1000)),
                        ("end_revision", models.BigIntegerField(blank=True, null=True)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "proposal",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="rollouts",
                                to="control.policyproposal",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "number"), name="rollout_number_once"),
                            models.UniqueConstraint(
                                condition=models.Q(("state", "running")),
                                fields=("environment",),
                                name="rollout_once_running",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ProposalNote",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("step", models.IntegerField()),
                        ("edition", models.IntegerField()),
                        ("verb", models.CharField(max_length=16)),
                        ("state", models.CharField(help_text="The state that it led to.", max_length=16)),
                        ("by", models.CharField(blank=True, default="", max_length=200)),
                        ("at", models.DateTimeField()),
                        ("text", models.CharField(max_length=500)),
                        (
                            "proposal",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="notes",
                                to="control.policyproposal",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("proposal", "step"), name="proposal_step_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="QuorumWatch",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("breaker", models.CharField(blank=True, default="", max_length=200)),
                        ("opened", models.IntegerField(default=0)),
                        ("reporting", models.IntegerField(default=0)),
                        ("met_since", models.DateTimeField(blank=True, null=True)),
                        ("fallen_since", models.DateTimeField(blank=True, null=True)),
                        ("seen_at", models.DateTimeField()),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "breaker"), name="quorum_watch_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Replay",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("number", models.IntegerField()),
                        ("by", models.CharField(max_length=200)),
                        ("asked_at", models.DateTimeField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("running", "running"),
                                    ("done", "done"),
                                    ("failed", "failed"),
                                    ("cancelled", "cancelled"),
                                ],
                                default="waiting",
                                max_length=16,
                            ),
                        ),
                        ("started_at", models.DateTimeField(blank=True, null=True)),
                        ("beat_at", models.DateTimeField(blank=True, null=True)),
                        ("finished_at", models.DateTimeField(blank=True, null=True)),
                        ("is_cancel_asked", models.BooleanField(default=False)),
                        ("problem", models.CharField(blank=True, default="", max_length=1000)),
                        (
                            "edition",
                            models.IntegerField(default=0, help_text="Of the proposal, when it was asked for."),
                        ),
                        ("old_version", models.CharField(max_length=32)),
                        ("old_document", models.JSONField()),
                        ("new_document", models.JSONField()),
                        ("start_at", models.DateTimeField()),
                        ("end_at", models.DateTimeField()),
                        ("service", models.CharField(blank=True, default="", max_length=200)),
                        ("operation", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "read_facts",
                            models.BigIntegerField(
                                default=0, help_text="An instance is decided as a whole, when all is read."
                            ),
                        ),
                        ("done_facts", models.BigIntegerField(default=0)),
                        ("total_facts", models.BigIntegerField(default=0)),
                        ("result", models.JSONField(null=True)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "proposal",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="replays",
                                to="control.policyproposal",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("state", "waiting")), fields=["asked_at"], name="replay_waiting"
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "number"), name="replay_number_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Reset",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("service", models.CharField(blank=True, default="*", max_length=200)),
                        ("operation", models.CharField(blank=True, default="*", max_length=200)),
                        ("instance", models.CharField(blank=True, default="*", max_length=200)),
                        ("group", models.CharField(blank=True, default="*", max_length=200)),
                        ("environment", models.CharField(max_length=64)),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("at", models.DateTimeField()),
                        ("revision", models.BigIntegerField()),
                        ("ramp_s", models.FloatField(default=0.0)),
                        ("salt", models.CharField(blank=True, default="", max_length=200)),
                        ("floor", models.BigIntegerField(default=0)),
                        ("limit", models.BigIntegerField(default=281474976710656)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "revision"], name="reset_by_revision")],
                    },
                ),
                migrations.CreateModel(
                    name="ResetRamp",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("number", models.IntegerField()),
                        ("breakers", models.JSONField(help_text="Their names.")),
                        ("service", models.CharField(blank=True, default="*", max_length=200)),
                        ("instance", models.CharField(blank=True, default="*", max_length=200)),
                        ("group", models.CharField(blank=True, default="*", max_length=200)),
                        (
                            "total",
                            models.IntegerField(help_text="Breakers of instances that were not closed when it began."),
                        ),
                        ("salt", models.CharField(max_length=200)),
                        (
                            "plan",
                            models.JSONField(
                                help_text="A list of [count, limit], the limit of the places of rules.cohorts."
                            ),
                        ),
                        (
                            "steps",
                            models.JSONField(default=list, help_text="A list of {at, revision, by, breakers, ramp_s}."),
                        ),
                        (
                            "overrides",
                            models.JSONField(
                                default=list, help_text="The ids of overrides that end with it, step by step."
                            ),
                        ),
                        ("bounds", models.JSONField(help_text="As rules.fleet_bounds.RampBounds.")),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("started_at", models.DateTimeField()),
                        ("step_at", models.DateTimeField()),
                        (
                            "forgiven_at",
                            models.DateTimeField(
                                blank=True, help_text="What had opened by then halts it no more.", null=True
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("running", "running"),
                                    ("halted", "halted"),
                                    ("cancelled", "cancelled"),
                                    ("done", "done"),
                                ],
                                default="running",
                                max_length=16,
                            ),
                        ),
                        ("turn", models.IntegerField(default=1)),
                        (
                            "health",
                            models.CharField(
                                blank=True, default="", help_text="A word of rules.ramps.Go.", max_length=16
                            ),
                        ),
                        ("said", models.CharField(blank=True, default="", max_length=1000)),
                        ("culprits", models.JSONField(default=list, help_text="The names of those that halted it.")),
                        ("judged_at", models.DateTimeField(blank=True, null=True)),
                        ("ended_at", models.DateTimeField(blank=True, null=True)),
                        ("ended_by", models.CharField(blank=True, default="", max_length=200)),
                        ("end_reason", models.CharField(blank=True, default="", max_length=1000)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "state"], name="ramp_by_state")],
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "number"), name="ramp_number_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RetryBudget",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("operation", models.CharField(max_length=200)),
                        ("budget", models.FloatField(help_text="The share of calls that may be retries.")),
                        (
                            "windows",
                            models.JSONField(
                                default=dict, help_text="Calls and retries by the length of a window in seconds."
                            ),
                        ),
                        ("at", models.DateTimeField()),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "operation"), name="retry_budget_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RoleGrant",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("group", models.CharField(blank=True, default="*", max_length=200)),
                        ("role", models.CharField(max_length=16)),
                        ("source", models.CharField(blank=True, default="", max_length=16)),
                        ("expires_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="role_grants",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("user", "environment", "group", "source"), name="role_once_by_source"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RunAbort",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("run", models.CharField(max_length=200)),
                        ("service", models.CharField(blank=True, default="", max_length=200)),
                        ("instance", models.CharField(blank=True, default="", max_length=200)),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("at", models.DateTimeField()),
                        ("revision", models.BigIntegerField()),
                        ("withdrawn_at", models.DateTimeField(blank=True, null=True)),
                        ("withdrawn_by", models.CharField(blank=True, default="", max_length=200)),
                        ("withdrawn_revision", models.BigIntegerField(blank=True, null=True)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("withdrawn_at__isnull", True)),
                                fields=["environment", "at"],
                                name="run_abort_held",
                            ),
                            models.Index(fields=["environment", "run", "at"], name="run_abort_history"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("withdrawn_at__isnull", True)),
                                fields=("environment", "run"),
                                name="run_aborted_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Runbook",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("category", models.CharField(max_length=32)),
                        ("text", models.CharField(blank=True, default="", max_length=8000)),
                        ("owner", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "review_on",
                            models.DateField(help_text="By when somebody looks whether they still hold.", null=True),
                        ),
                        ("version", models.IntegerField(default=1)),
                        ("changed_by", models.CharField(max_length=200)),
                        ("changed_at", models.DateTimeField()),
                        ("used_at", models.DateTimeField(help_text="When a step was ticked last.", null=True)),
                        ("used_by", models.CharField(blank=True, default="", max_length=200)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "category"), name="runbook_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RunbookTick",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "key",
                            models.CharField(
                                help_text="A digest of the step's words: other words, another step.", max_length=16
                            ),
                        ),
                        ("step", models.CharField(max_length=400)),
                        ("by", models.CharField(max_length=200)),
                        ("at", models.DateTimeField()),
                        (
                            "escalation",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="ticks",
                                to="control.escalation",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("escalation", "key"), name="runbook_tick_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RunRetry",
                    fields=[
                        (
                            "id",
                            models.CharField(
                                default=recovery_ops.control.runs.models.retries.new_retry_id,
                                max_length=16,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("run", models.CharField(max_length=200)),
                        ("service", models.CharField(max_length=200)),
                        ("instance", models.CharField(max_length=200)),
                        ("reason", models.CharField(max_length=500)),
                        ("input", models.TextField(blank=True, default="")),
                        ("by", models.CharField(max_length=200)),
                        ("at", models.DateTimeField()),
                        ("revision", models.BigIntegerField()),
                        ("begun_at", models.DateTimeField(blank=True, null=True)),
                        ("ended_at", models.DateTimeField(blank=True, null=True)),
                        ("ended_by", models.CharField(blank=True, default="", max_length=200)),
                        ("end_revision", models.BigIntegerField(blank=True, null=True)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=["environment", "at"],
                                name="run_retry_held",
                            ),
                            models.Index(fields=["environment", "run", "at"], name="run_retry_history"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=("environment", "run"),
                                name="run_retried_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SavedView",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("screen", models.CharField(max_length=40)),
                        ("name", models.CharField(blank=True, default="", max_length=200)),
                        ("query", models.CharField(blank=True, max_length=2000)),
                        (
                            "owner",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="saved_views",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "screen", "owner", "name"), name="view_name_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SeenFailure",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("fingerprint", models.CharField(max_length=401)),
                        ("first_at", models.DateTimeField()),
                        ("last_at", models.DateTimeField()),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "fingerprint"), name="seen_failure_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="UnknownCause",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("fingerprint", models.CharField(max_length=200)),
                        (
                            "state",
                            models.CharField(
                                choices=[("open", "open"), ("dismissed", "dismissed"), ("proposed", "proposed")],
                                default="open",
                                max_length=16,
                            ),
                        ),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("at", models.DateTimeField()),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "proposal",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="unknown_causes",
                                to="control.policyproposal",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "fingerprint"), name="unknown_cause_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="UsedKey",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("key", models.CharField(max_length=64)),
                        ("request_digest", models.CharField(max_length=64)),
                        ("at", models.DateTimeField()),
                    ],
                    options={
                        "indexes": [models.Index(fields=["at"], name="used_key_at")],
                        "constraints": [models.UniqueConstraint(fields=("environment", "key"), name="used_key_once")],
                    },
                ),
                migrations.CreateModel(
                    name="WorkPause",
                    fields=[
                        (
                            "id",
                            models.CharField(
                                default=recovery_ops.control.agents.models.pauses.new_pause_id,
                                max_length=16,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("service", models.CharField(max_length=200)),
                        ("instance", models.CharField(blank=True, default="", max_length=200)),
                        ("kind", models.CharField(default="pause", max_length=8)),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("at", models.DateTimeField()),
                        ("expires_at", models.DateTimeField(blank=True, null=True)),
                        ("revision", models.BigIntegerField()),
                        ("ended_at", models.DateTimeField(blank=True, null=True)),
                        ("ended_by", models.CharField(blank=True, default="", max_length=200)),
                        ("end_reason", models.CharField(blank=True, default="", max_length=500)),
                        ("end_revision", models.BigIntegerField(blank=True, null=True)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=["expires_at"],
                                name="work_pause_due",
                            ),
                            models.Index(fields=["environment", "ended_at"], name="work_pause_ended"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=("environment", "service", "instance"),
                                name="work_paused_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Annotation",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("number", models.IntegerField()),
                        ("text", models.CharField(max_length=200)),
                        (
                            "tags",
                            models.CharField(
                                blank=True, default="", help_text="`|deploy|eu|`; empty for none.", max_length=411
                            ),
                        ),
                        ("operation", models.CharField(blank=True, default="", max_length=200)),
                        ("at", models.DateTimeField()),
                        ("lasts", models.BooleanField(default=False)),
                        ("until", models.DateTimeField(null=True)),
                        ("by", models.CharField(max_length=200)),
                        ("made_at", models.DateTimeField()),
                        ("ended_by", models.CharField(blank=True, default="", max_length=200)),
                        ("removed_at", models.DateTimeField(null=True)),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "at"], name="annotation_by_time")],
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "number"), name="annotation_number_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ApprovalRequest",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("number", models.IntegerField()),
                        ("act", models.CharField(max_length=32)),
                        ("arguments", models.JSONField()),
                        ("about", models.CharField(help_text="What it is done to, in words.", max_length=800)),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("identity", models.CharField(max_length=400)),
                        (
                            "key",
                            models.CharField(
                                blank=True, default="", help_text="The idempotency key of who asked.", max_length=64
                            ),
                        ),
                        ("asked_at", models.DateTimeField()),
                        ("expires_at", models.DateTimeField()),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "waiting"),
                                    ("agreed", "agreed"),
                                    ("rejected", "rejected"),
                                    ("withdrawn", "withdrawn"),
                                    ("expired", "expired"),
                                    ("glass", "glass"),
                                    ("reviewed", "reviewed"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("decided_by", models.CharField(blank=True, default="", max_length=200)),
                        ("decided_at", models.DateTimeField(blank=True, null=True)),
                        ("decision_reason", models.CharField(blank=True, default="", max_length=500)),
                        (
                            "revision",
                            models.BigIntegerField(blank=True, help_text="Under which it was done.", null=True),
                        ),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["environment", "state", "expires_at"], name="approval_request_by_state"
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "number"), name="approval_request_number_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="BreakerProbe",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("service", models.CharField(blank=True, default="*", max_length=200)),
                        ("operation", models.CharField(blank=True, default="*", max_length=200)),
                        ("instance", models.CharField(blank=True, default="*", max_length=200)),
                        ("group", models.CharField(blank=True, default="*", max_length=200)),
                        ("environment", models.CharField(max_length=64)),
                        ("reason", models.CharField(max_length=500)),
                        ("by", models.CharField(max_length=200)),
                        ("at", models.DateTimeField()),
                        ("revision", models.BigIntegerField()),
                        (
                            "by_user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "revision"], name="probe_by_revision")],
                    },
                ),
            ],
        ),
    ]
