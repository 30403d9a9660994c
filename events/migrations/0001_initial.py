import django.db.models.deletion
from django.db import migrations, models

import events.store.migration_operations


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
                    name="AgentKey",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("name", models.CharField(max_length=200)),
                        ("environment", models.CharField(max_length=64)),
                        (
                            "scopes",
                            models.CharField(help_text="Space-separated words of events.keys.SCOPES.", max_length=100),
                        ),
                        ("prefix", models.CharField(max_length=16, unique=True)),
                        (
                            "digest",
                            models.CharField(
                                help_text="SHA-256 of the whole token, in hexadecimal.", max_length=64, unique=True
                            ),
                        ),
                        ("created_at", models.DateTimeField()),
                        ("expires_at", models.DateTimeField(blank=True, null=True)),
                        ("revoked_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "last_used_at",
                            models.DateTimeField(blank=True, help_text="Exact to about a minute.", null=True),
                        ),
                        ("last_used_from", models.CharField(blank=True, db_default="", default="", max_length=64)),
                        ("made_by", models.CharField(blank=True, db_default="", default="", max_length=200)),
                        (
                            "requests_per_s",
                            models.IntegerField(
                                blank=True,
                                help_text="Of each scope, by each process; null: what the settings say, 0: no limit.",
                                null=True,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["environment", "name", "id"],
                    },
                ),
                migrations.CreateModel(
                    name="CapacityLook",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64, unique=True)),
                        (
                            "bounds",
                            models.JSONField(
                                default=dict, help_text="When many failures are one outage, as the policy says."
                            ),
                        ),
                        (
                            "hours",
                            models.JSONField(
                                default=dict,
                                help_text="Failures by hour since the epoch, as they were at the last look.",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="HiddenTexts",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64, unique=True)),
                        (
                            "section",
                            models.JSONField(default=dict, help_text="What is masked beside what is masked anyway."),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="NamedFailures",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64, unique=True)),
                        (
                            "rules",
                            models.JSONField(default=list, help_text="What unknown failures are, as the policy says."),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="SchemaStamp",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("fingerprint", models.CharField(max_length=64)),
                        (
                            "commit",
                            models.CharField(
                                help_text="Of the checkout, or the version where there is none.", max_length=64
                            ),
                        ),
                        ("written_at", models.DateTimeField()),
                    ],
                ),
                migrations.CreateModel(
                    name="Agent",
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
                        ("first_seen_us", models.BigIntegerField()),
                        ("last_seen_us", models.BigIntegerField()),
                        (
                            "changes",
                            models.BigIntegerField(
                                db_default=0, default=0, help_text="Transactions that stored events of it."
                            ),
                        ),
                        (
                            "retired_us",
                            models.BigIntegerField(
                                db_default=0, default=0, help_text="When people said that it is gone, or 0."
                            ),
                        ),
                        ("described_position", models.BinaryField(default=b"", max_length=32)),
                        ("version", models.CharField(blank=True, default="", max_length=200)),
                        ("group", models.CharField(blank=True, default="", max_length=200)),
                        ("heartbeat_position", models.BinaryField(default=b"", max_length=32)),
                        ("heartbeat_us", models.BigIntegerField(null=True)),
                        ("heartbeat_interval_s", models.FloatField(default=0.0)),
                        ("status", models.CharField(default="", help_text="Empty: no heartbeat yet.", max_length=32)),
                        ("uptime_s", models.FloatField(default=0.0)),
                        ("schema_version", models.IntegerField(default=0)),
                        ("breakers_open", models.IntegerField(default=0)),
                        ("runs_in_flight", models.IntegerField(default=0)),
                        ("outbox_pending", models.BigIntegerField(default=0)),
                        ("outbox_dropped", models.BigIntegerField(default=0)),
                        (
                            "region",
                            models.CharField(
                                db_default="", default="", help_text="Where it runs, if it said.", max_length=200
                            ),
                        ),
                        (
                            "spending",
                            models.TextField(
                                default="{}", help_text="JSON: totals of its spend accounts, by measure and account."
                            ),
                        ),
                        (
                            "takes_new_work",
                            models.BooleanField(help_text="Whether it begins runs, if it said.", null=True),
                        ),
                        (
                            "takes_retries",
                            models.BooleanField(help_text="Whether it begins runs again, if it said.", null=True),
                        ),
                        ("revision_position", models.BinaryField(default=b"", max_length=32)),
                        ("revision", models.BigIntegerField(default=0)),
                        ("config_hash", models.CharField(default="", max_length=64)),
                        ("applied_position", models.BinaryField(default=b"", max_length=32)),
                        (
                            "applied_us",
                            models.BigIntegerField(help_text="When desired_state_applied was last stated.", null=True),
                        ),
                        ("applied_revision", models.BigIntegerField(default=0)),
                        (
                            "clamped",
                            models.TextField(
                                default="[]", help_text="JSON list: what local ceilings held back at that revision."
                            ),
                        ),
                        ("rejected_position", models.BinaryField(default=b"", max_length=32)),
                        ("rejected_us", models.BigIntegerField(null=True)),
                        ("rejected_revision", models.BigIntegerField(null=True)),
                        ("rejected_reason", models.CharField(default="", max_length=1000)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "service", "instance"), name="agent_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CapacityEvent",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("provider", models.CharField(blank=True, default="", max_length=200)),
                        ("model", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "operation",
                            models.CharField(
                                default="", help_text="Only where provider and model are not.", max_length=200
                            ),
                        ),
                        (
                            "region",
                            models.CharField(
                                default="", help_text="Where it failed; empty: nobody said.", max_length=200
                            ),
                        ),
                        ("started_us", models.BigIntegerField(help_text="The first failure of the first hot moment.")),
                        ("last_us", models.BigIntegerField(help_text="The last failure of the last hot moment.")),
                        (
                            "read_us",
                            models.BigIntegerField(
                                default=0, help_text="Up to which failure the numbers below were read."
                            ),
                        ),
                        ("is_partial", models.BooleanField(default=False)),
                        (
                            "is_counted_by_fact",
                            models.BooleanField(
                                default=False,
                                help_text="Whether its failures were counted one by one: the sums know no region.",
                            ),
                        ),
                        ("failures", models.BigIntegerField(default=0)),
                        ("categories", models.JSONField(default=dict, help_text="Failures by category.")),
                        (
                            "codes",
                            models.JSONField(
                                default=dict,
                                help_text="Failures by HTTP status, empty for none; of those read one by one.",
                            ),
                        ),
                        (
                            "operations",
                            models.JSONField(default=dict, help_text="Failures by operation, the twenty with most."),
                        ),
                        (
                            "foreground",
                            models.BigIntegerField(default=0, help_text="Failures for which somebody waited."),
                        ),
                        ("runs", models.IntegerField(default=0)),
                        ("instances", models.IntegerField(default=0)),
                        (
                            "services",
                            models.JSONField(default=dict, help_text="How many instances of each service it reached."),
                        ),
                        (
                            "counted",
                            models.JSONField(
                                default=dict,
                                help_text="Runs, instances and services of all that is shown as one with it; empty: not counted.",
                            ),
                        ),
                        ("peak_per_min", models.IntegerField(default=0)),
                        ("peak_us", models.BigIntegerField(default=0, help_text="The beginning of the worst minute.")),
                        (
                            "longest_wait_s",
                            models.FloatField(help_text="The longest Retry-After that was seen.", null=True),
                        ),
                        (
                            "breakers",
                            models.JSONField(default=dict, help_text="How often each breaker opened in its course."),
                        ),
                        (
                            "moves",
                            models.JSONField(
                                default=dict,
                                help_text="What each breaker did that opened, as events.capacity.moves says.",
                            ),
                        ),
                        (
                            "fallbacks",
                            models.BigIntegerField(default=0, help_text="Answers by an alternative in its course."),
                        ),
                        (
                            "is_ours",
                            models.BooleanField(
                                default=False,
                                help_text="Most of what never reached the service failed on our side: no name, no route.",
                            ),
                        ),
                        (
                            "attributions",
                            models.JSONField(
                                default=list,
                                help_text="Each change of its attribution: at_us, from, to, and the failures by category then.",
                            ),
                        ),
                        (
                            "followed_us",
                            models.BigIntegerField(default=0, help_text="When the runs it reached were last asked."),
                        ),
                        (
                            "follow_until_us",
                            models.BigIntegerField(default=0, help_text="Until when they are asked again."),
                        ),
                        (
                            "waits",
                            models.JSONField(
                                default=list, help_text="Until when each run waits whose last word is a wait."
                            ),
                        ),
                        (
                            "tokens",
                            models.BigIntegerField(default=0, help_text="What those that ended said they used."),
                        ),
                        ("tokens_runs", models.IntegerField(default=0, help_text="How many said it.")),
                        ("cost_usd", models.FloatField(default=0.0, help_text="What those that ended said they cost.")),
                        ("cost_runs", models.IntegerField(default=0, help_text="How many said it.")),
                        (
                            "joined_to",
                            models.ForeignKey(
                                db_index=False,
                                help_text="The event that `rules.one_outage` says it is one with.",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.capacityevent",
                            ),
                        ),
                        (
                            "merged_into",
                            models.ForeignKey(
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.capacityevent",
                            ),
                        ),
                        (
                            "part_of",
                            models.ForeignKey(
                                db_index=False,
                                help_text="The event that it is shown as one with, by the rule or by people; it goes on growing by itself.",
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.capacityevent",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("merged_into", None)),
                                fields=["environment", "last_us"],
                                name="capacity_by_last",
                            ),
                            models.Index(
                                condition=models.Q(("part_of__isnull", False)),
                                fields=["part_of"],
                                name="capacity_by_whole",
                            ),
                            models.Index(
                                condition=models.Q(("joined_to__isnull", False)),
                                fields=["joined_to"],
                                name="capacity_by_joined",
                            ),
                            models.Index(
                                condition=models.Q(("merged_into__isnull", False)),
                                fields=["merged_into"],
                                name="capacity_by_absorber",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CapacityArrangement",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("kind", models.CharField(max_length=8)),
                        (
                            "provider",
                            models.CharField(default="", help_text="Of a cut: whose outage it is.", max_length=200),
                        ),
                        ("model", models.CharField(default="", max_length=200)),
                        ("operation", models.CharField(default="", max_length=200)),
                        ("region", models.CharField(default="", max_length=200)),
                        (
                            "at_us",
                            models.BigIntegerField(
                                help_text="Of a cut: what happened from then on is the later one's.", null=True
                            ),
                        ),
                        ("made_at", models.DateTimeField()),
                        ("made_by", models.CharField(max_length=200)),
                        ("reason", models.CharField(max_length=500)),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("ended_by", models.CharField(default="", max_length=200)),
                        (
                            "event",
                            models.ForeignKey(
                                help_text="The later one.",
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.capacityevent",
                            ),
                        ),
                        (
                            "other",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="events.capacityevent"
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "ended_at"], name="arrangement_by_end")],
                    },
                ),
                migrations.CreateModel(
                    name="Degradation",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("operation", models.CharField(blank=True, default="", max_length=200)),
                        ("kind", models.CharField(default="", max_length=32)),
                        ("from_name", models.CharField(blank=True, default="", max_length=200)),
                        ("to_name", models.CharField(blank=True, default="", max_length=200)),
                        ("reason", models.CharField(default="", max_length=1000)),
                        ("category", models.CharField(default="", max_length=32)),
                        ("started_us", models.BigIntegerField()),
                        ("ended_us", models.BigIntegerField(help_text="None: still going on.", null=True)),
                        (
                            "calls",
                            models.BigIntegerField(default=0, help_text="Calls answered so; known when it has ended."),
                        ),
                        (
                            "last_position",
                            models.BinaryField(help_text="Of the last fact that shaped it.", max_length=32),
                        ),
                        (
                            "agent",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.agent",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["agent", "operation", "kind", "last_position"], name="degradation_by_agent"
                            ),
                            models.Index(fields=["environment", "started_us"], name="degradation_by_start"),
                            models.Index(fields=["environment", "ended_us"], name="degradation_by_end"),
                            models.Index(
                                condition=models.Q(("ended_us__isnull", True)),
                                fields=["environment"],
                                name="degradation_open",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Fact",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        (
                            "uid",
                            models.BinaryField(
                                help_text="The UUID of log.record.uid, or a digest where there is none.", max_length=16
                            ),
                        ),
                        ("event", models.CharField(max_length=32)),
                        ("at_us", models.BigIntegerField()),
                        ("received_us", models.BigIntegerField()),
                        ("stated_us", models.BigIntegerField(null=True)),
                        ("sequence_number", models.BigIntegerField(default=0)),
                        ("severity", models.SmallIntegerField(default=0)),
                        ("operation", models.CharField(blank=True, default="", max_length=200)),
                        ("breaker", models.CharField(blank=True, default="", max_length=200)),
                        ("source", models.CharField(blank=True, default="", max_length=200)),
                        ("is_foreground", models.BooleanField(default=False)),
                        ("run", models.CharField(blank=True, default="", max_length=200)),
                        ("category", models.CharField(default="", max_length=32)),
                        ("state", models.CharField(default="", max_length=16)),
                        ("provider", models.CharField(blank=True, default="", max_length=200)),
                        ("model", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "region",
                            models.CharField(
                                help_text="Where what was called stands; none where nobody said.",
                                max_length=200,
                                null=True,
                            ),
                        ),
                        ("trace_id", models.CharField(default="", help_text="Lower-case hexadecimal.", max_length=32)),
                        ("span_id", models.CharField(default="", max_length=16)),
                        ("attributes", models.JSONField(default=dict)),
                        (
                            "body",
                            models.CharField(
                                default="", help_text="A sentence for people; nothing decides by it.", max_length=1000
                            ),
                        ),
                        (
                            "agent",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.agent",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["environment", "event", "at_us"], name="fact_by_event"),
                            models.Index(fields=["environment", "breaker", "event", "at_us"], name="fact_by_breaker"),
                            models.Index(
                                condition=models.Q(("event__in", ("degradation_started", "degradation_ended"))),
                                fields=["agent", "operation", "at_us"],
                                name="fact_degradations",
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("event__in", ("instance_heartbeat", "gate_closed", "wait_heartbeat"))
                                ),
                                fields=["agent", "at_us"],
                                name="fact_by_instance",
                            ),
                            models.Index(
                                condition=models.Q(("run__gt", "")),
                                fields=["environment", "run", "at_us"],
                                name="fact_by_run",
                            ),
                        ],
                        "constraints": [models.UniqueConstraint(fields=("environment", "uid"), name="fact_once")],
                    },
                ),
                migrations.CreateModel(
                    name="FailureKind",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("digest", models.BinaryField(help_text="Of all other columns.", max_length=16, unique=True)),
                        ("environment", models.CharField(max_length=64)),
                        ("fingerprint", models.CharField(max_length=440)),
                        ("category", models.CharField(default="", max_length=32)),
                        ("operation", models.CharField(default="", max_length=200)),
                        ("breaker", models.CharField(default="", max_length=200)),
                        ("provider", models.CharField(default="", max_length=200)),
                        ("model", models.CharField(default="", max_length=200)),
                        ("region", models.CharField(default="", max_length=200)),
                        ("service", models.CharField(default="", max_length=200)),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "fingerprint"], name="failure_kind_by_issue")],
                    },
                ),
                migrations.CreateModel(
                    name="FailureSum",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        (
                            "minutes",
                            models.SmallIntegerField(help_text="How long the span is: one of `FAILURE_MINUTES`."),
                        ),
                        (
                            "span",
                            models.IntegerField(help_text="Which one it is: minutes since the epoch ÷ `minutes`."),
                        ),
                        ("kind", models.BinaryField(help_text="`FailureKind.digest`.", max_length=16)),
                        ("variant", models.SmallIntegerField(help_text="`events.issues.fold.Variant.number`.")),
                        ("failures", models.BigIntegerField()),
                        ("first_us", models.BigIntegerField()),
                        ("last_us", models.BigIntegerField()),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("minutes", 1)), fields=["kind", "span"], name="failure_sum_by_kind"
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "minutes", "span", "kind", "variant"), name="failure_sum_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="InstanceFailureSum",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        (
                            "minutes",
                            models.SmallIntegerField(help_text="How long the span is: one of `FAILURE_MINUTES`."),
                        ),
                        (
                            "span",
                            models.IntegerField(help_text="Which one it is: minutes since the epoch ÷ `minutes`."),
                        ),
                        ("kind", models.BinaryField(help_text="`FailureKind.digest`.", max_length=16)),
                        ("variant", models.SmallIntegerField(help_text="`events.issues.fold.Variant.number`.")),
                        ("failures", models.BigIntegerField()),
                        ("first_us", models.BigIntegerField()),
                        ("last_us", models.BigIntegerField()),
                        (
                            "agent",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.agent",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "minutes", "span", "kind", "variant", "agent"),
                                name="instance_failure_sum_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="InstanceMoves",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("breaker", models.CharField(blank=True, default="", max_length=200)),
                        ("minutes", models.SmallIntegerField(help_text="How long the span is.")),
                        (
                            "span",
                            models.IntegerField(help_text="Which one it is: minutes since the epoch ÷ `minutes`."),
                        ),
                        ("moves", models.BigIntegerField()),
                        ("worst", models.SmallIntegerField()),
                        ("first", models.BigIntegerField()),
                        ("last", models.BigIntegerField()),
                        (
                            "agent",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.agent",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["minutes", "span"], name="instance_moves_by_time")],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "breaker", "minutes", "span", "agent"),
                                name="instance_moves_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="KnownName",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        (
                            "kind",
                            models.CharField(help_text="A word of events.ingest.cardinality.Kind.", max_length=16),
                        ),
                        ("name", models.CharField(max_length=401)),
                        (
                            "seen_day",
                            models.IntegerField(
                                help_text="Days since the epoch; a name that is not seen for long gives way."
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "kind", "name"), name="known_name_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MinuteSum",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("dimensions", models.BinaryField(max_length=16)),
                        ("service", models.CharField(blank=True, default="", max_length=200)),
                        ("operation", models.CharField(blank=True, default="", max_length=200)),
                        ("breaker", models.CharField(blank=True, default="", max_length=200)),
                        ("source", models.CharField(blank=True, default="", max_length=200)),
                        ("is_foreground", models.BooleanField(default=False)),
                        ("provider", models.CharField(blank=True, default="", max_length=200)),
                        ("model", models.CharField(blank=True, default="", max_length=200)),
                        ("category", models.CharField(default="", max_length=32)),
                        (
                            "subject",
                            models.CharField(default="", help_text="The breaker, else the operation.", max_length=200),
                        ),
                        (
                            "facts",
                            models.BigIntegerField(
                                default=0,
                                help_text="Facts of all kinds but calls_counted, settings_in_force and heartbeats.",
                            ),
                        ),
                        ("failures", models.BigIntegerField(default=0)),
                        (
                            "rate_limited",
                            models.BigIntegerField(
                                default=0, help_text="Failures with status 429, or said to be rate_limited."
                            ),
                        ),
                        (
                            "overloaded",
                            models.BigIntegerField(
                                default=0, help_text="Failures with status 529, or said to be overloaded."
                            ),
                        ),
                        ("retries", models.BigIntegerField(default=0)),
                        ("fallbacks", models.BigIntegerField(default=0)),
                        (
                            "rejections",
                            models.BigIntegerField(
                                default=0, help_text="Calls that were not made; not those let through."
                            ),
                        ),
                        ("exhausted", models.BigIntegerField(default=0)),
                        ("degradations", models.BigIntegerField(default=0, help_text="Degradations that began.")),
                        ("model_fallbacks", models.BigIntegerField(default=0)),
                        ("calls", models.BigIntegerField(default=0)),
                        ("attempts", models.BigIntegerField(default=0)),
                        ("successes", models.BigIntegerField(default=0)),
                        (
                            "inner_retries",
                            models.BigIntegerField(
                                default=0, help_text="Retries by clients themselves, within attempts."
                            ),
                        ),
                        ("minute", models.IntegerField(help_text="Whole minutes since the epoch.")),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["environment", "subject", "minute"], name="minute_sum_by_subject")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "minute", "dimensions"), name="minute_sum_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="OpenParent",
                    fields=[
                        (
                            "key",
                            models.BigIntegerField(
                                help_text="Of its environment, trace and span.", primary_key=True, serialize=False
                            ),
                        ),
                        ("whole_ns", models.BigIntegerField(help_text="The end of its last child that went well.")),
                        ("seen_us", models.BigIntegerField(help_text="When it was last told of.")),
                    ],
                    options={
                        "indexes": [models.Index(fields=["seen_us"], name="open_parent_by_time")],
                    },
                ),
                migrations.CreateModel(
                    name="Quarantine",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("received_us", models.BigIntegerField()),
                        ("key_prefix", models.CharField(default="", max_length=16)),
                        ("reason", models.CharField(max_length=200)),
                        ("size_bytes", models.IntegerField(help_text="How long it was before it was cut.")),
                        ("content", models.TextField()),
                        (
                            "signal",
                            models.CharField(
                                default="logs", help_text="A word of events.otlp.sent.Signal.", max_length=8
                            ),
                        ),
                        (
                            "encoding",
                            models.CharField(default="", help_text="The media type of the payload.", max_length=32),
                        ),
                        ("payload", models.BinaryField(default=b"")),
                        ("tries", models.IntegerField(default=0, help_text="How often it was replayed in vain.")),
                    ],
                    options={
                        "indexes": [models.Index(fields=["environment", "received_us"], name="quarantine_by_time")],
                    },
                ),
                migrations.CreateModel(
                    name="RecoveryDay",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("day", models.IntegerField(help_text="Days since the epoch, UTC.")),
                        ("read_us", models.BigIntegerField(help_text="When its facts were read.")),
                        (
                            "facts",
                            models.BigIntegerField(
                                help_text="How many facts its sums held then: other than now means read it again."
                            ),
                        ),
                        (
                            "is_partial",
                            models.BooleanField(default=False, help_text="Whether more runs ended than were read."),
                        ),
                        ("runs", models.IntegerField(default=0)),
                        ("alone", models.IntegerField(default=0)),
                        ("helped", models.IntegerField(default=0)),
                        ("lost", models.IntegerField(default=0)),
                        ("costed", models.IntegerField(default=0)),
                        ("alone_s", models.FloatField(default=0.0)),
                        ("helped_s", models.FloatField(default=0.0)),
                        ("lost_s", models.FloatField(default=0.0)),
                        ("alone_usd", models.FloatField(default=0.0)),
                        ("helped_usd", models.FloatField(default=0.0)),
                        ("lost_usd", models.FloatField(default=0.0)),
                        ("failures", models.BigIntegerField(default=0, help_text="Attempts that failed.")),
                        ("retries", models.BigIntegerField(default=0)),
                        ("fallbacks", models.BigIntegerField(default=0)),
                        ("exhausted", models.BigIntegerField(default=0, help_text="Calls that no rung could save.")),
                        (
                            "causes",
                            models.JSONField(
                                default=list,
                                help_text="[operation, category, failures, runs it met, those of them lost], most failures first.",
                            ),
                        ),
                        (
                            "costs",
                            models.JSONField(
                                help_text="[operation, runs that met a failure of it and said what they cost, dollars]; null: not read so.",
                                null=True,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "day"), name="recovery_day_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Run",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("run", models.CharField(max_length=200)),
                        ("first_us", models.BigIntegerField(help_text="Its first event.")),
                        ("last_us", models.BigIntegerField(help_text="Its last event.")),
                        (
                            "started_us",
                            models.BigIntegerField(
                                help_text="Its first run_started; its first event where there is none."
                            ),
                        ),
                        ("ended_us", models.BigIntegerField(help_text="Its run_finished; null: not ended.", null=True)),
                        (
                            "status",
                            models.CharField(default="", help_text="At its end; `ended`: not stated.", max_length=32),
                        ),
                        (
                            "is_failed",
                            models.BooleanField(default=False, help_text="Ended without what it was to bring."),
                        ),
                        ("is_long", models.BooleanField(default=False, help_text="Lasts longer than `LONG_US`.")),
                        ("name", models.CharField(default="", max_length=200)),
                        ("source", models.CharField(default="", max_length=200)),
                        ("policy", models.CharField(default="", max_length=200)),
                        (
                            "level",
                            models.SmallIntegerField(
                                default=0, help_text="The highest recovery step, 1 to 5; 0: none."
                            ),
                        ),
                        ("failures", models.BigIntegerField(default=0)),
                        ("categories", models.TextField(default="{}", help_text="JSON: failures by category.")),
                        (
                            "models_named",
                            models.TextField(default="[]", help_text="JSON: providers and models of its events."),
                        ),
                        ("retries", models.BigIntegerField(default=0)),
                        ("questions", models.BigIntegerField(default=0)),
                        (
                            "waited_us",
                            models.BigIntegerField(
                                default=0, help_text="The sum of its announced waits, until its end."
                            ),
                        ),
                        (
                            "waits_until_us",
                            models.BigIntegerField(
                                default=0, help_text="The end of the longest wait that nothing followed."
                            ),
                        ),
                        (
                            "capacity_until_us",
                            models.BigIntegerField(default=0, help_text="The same of waits after capacity failures."),
                        ),
                        ("cost_usd", models.FloatField(null=True)),
                        ("fold", models.TextField(help_text="JSON of events.runs.fold.RunFold.")),
                        (
                            "agent",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                help_text="The instance of its first event.",
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.agent",
                            ),
                        ),
                        (
                            "holder",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                help_text="The instance that began it last.",
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.agent",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["environment", "first_us", "last_us"], name="run_by_start"),
                            models.Index(fields=["agent", "first_us"], name="run_by_agent"),
                            models.Index(fields=["environment", "status", "first_us", "last_us"], name="run_by_status"),
                            models.Index(
                                condition=models.Q(("failures__gt", 0)),
                                fields=["environment", "first_us", "last_us"],
                                name="run_failing",
                            ),
                            models.Index(
                                condition=models.Q(("ended_us__isnull", True)),
                                fields=["environment", "first_us", "last_us"],
                                name="run_going",
                            ),
                            models.Index(
                                condition=models.Q(("questions__gt", 0)),
                                fields=["environment", "first_us", "last_us"],
                                name="run_asking",
                            ),
                            models.Index(
                                condition=models.Q(("is_failed", True)),
                                fields=["environment", "first_us", "last_us"],
                                name="run_failed",
                            ),
                            models.Index(
                                condition=models.Q(("is_long", True)),
                                fields=["environment", "last_us", "first_us"],
                                name="run_long",
                            ),
                        ],
                        "constraints": [models.UniqueConstraint(fields=("environment", "run"), name="run_once")],
                    },
                ),
                migrations.CreateModel(
                    name="RunFailure",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("run", models.CharField(max_length=200)),
                        (
                            "kind",
                            models.BinaryField(help_text="`events.issues.models.FailureKind.digest`.", max_length=16),
                        ),
                        ("failures", models.BigIntegerField()),
                        ("first_us", models.BigIntegerField()),
                        ("last_us", models.BigIntegerField()),
                    ],
                    options={
                        "indexes": [models.Index(fields=["kind", "last_us", "first_us"], name="run_failure_by_kind")],
                        "constraints": [
                            models.UniqueConstraint(fields=("environment", "run", "kind"), name="run_failure_once")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ServiceVersion",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("service", models.CharField(max_length=200)),
                        ("version", models.CharField(max_length=200)),
                        ("first_us", models.BigIntegerField(help_text="When the earliest fact happened that told it.")),
                        ("last_us", models.BigIntegerField(help_text="The minute of the newest fact that told it.")),
                        (
                            "beat_us",
                            models.BigIntegerField(
                                default=0, help_text="The minute of the newest heartbeat that told it; 0: none."
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["environment", "first_us"], name="service_version_by_first"),
                            models.Index(fields=["environment", "beat_us"], name="service_version_by_beat"),
                            models.Index(
                                fields=["environment", "service", "first_us"], name="service_version_in_order"
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "service", "version"), name="service_version_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SettingsInForce",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("operation", models.CharField(blank=True, default="", max_length=200)),
                        ("position", models.BinaryField(default=b"", max_length=32)),
                        ("at_us", models.BigIntegerField(help_text="When it was stated.")),
                        ("revision", models.BigIntegerField(default=0)),
                        ("version", models.IntegerField(default=1)),
                        ("kind", models.CharField(default="", max_length=32)),
                        ("breaker", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "count",
                            models.BigIntegerField(default=0, help_text="Of the process: how many operations it has."),
                        ),
                        ("stated", models.TextField(default="{}", help_text="JSON: three maps of settings by name.")),
                        (
                            "agent",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.agent",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [models.UniqueConstraint(fields=("agent", "operation"), name="settings_once")],
                    },
                ),
                migrations.CreateModel(
                    name="SpanMark",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("trace_id", models.CharField(max_length=32)),
                        ("span_id", models.CharField(max_length=16)),
                        ("parent_id", models.CharField(default="", max_length=16)),
                        (
                            "ended_ns",
                            models.BigIntegerField(default=0, help_text="0: only its children told of it so far."),
                        ),
                        ("is_failed", models.BooleanField(default=False)),
                        ("error_type", models.CharField(default="", max_length=200)),
                        (
                            "whole_ns",
                            models.BigIntegerField(default=0, help_text="The end of its last child that went well."),
                        ),
                        ("says", models.JSONField(help_text="See events.derived.marks.Says.", null=True)),
                        ("errors", models.JSONField(default=list)),
                        (
                            "passed_on",
                            models.JSONField(
                                help_text="The failure that an error it passes on would be of its own.", null=True
                            ),
                        ),
                        ("seen_us", models.BigIntegerField(help_text="When it was last told of.")),
                    ],
                    options={
                        "indexes": [models.Index(fields=["seen_us"], name="span_mark_by_time")],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "trace_id", "span_id"), name="span_mark_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SpanSum",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("dimensions", models.BinaryField(max_length=16)),
                        ("service", models.CharField(blank=True, default="", max_length=200)),
                        ("operation", models.CharField(blank=True, default="", max_length=200)),
                        ("breaker", models.CharField(blank=True, default="", max_length=200)),
                        ("source", models.CharField(blank=True, default="", max_length=200)),
                        ("is_foreground", models.BooleanField(default=False)),
                        ("provider", models.CharField(blank=True, default="", max_length=200)),
                        ("model", models.CharField(blank=True, default="", max_length=200)),
                        ("category", models.CharField(default="", max_length=32)),
                        (
                            "subject",
                            models.CharField(default="", help_text="The breaker, else the operation.", max_length=200),
                        ),
                        (
                            "facts",
                            models.BigIntegerField(
                                default=0,
                                help_text="Facts of all kinds but calls_counted, settings_in_force and heartbeats.",
                            ),
                        ),
                        ("failures", models.BigIntegerField(default=0)),
                        (
                            "rate_limited",
                            models.BigIntegerField(
                                default=0, help_text="Failures with status 429, or said to be rate_limited."
                            ),
                        ),
                        (
                            "overloaded",
                            models.BigIntegerField(
                                default=0, help_text="Failures with status 529, or said to be overloaded."
                            ),
                        ),
                        ("retries", models.BigIntegerField(default=0)),
                        ("fallbacks", models.BigIntegerField(default=0)),
                        (
                            "rejections",
                            models.BigIntegerField(
                                default=0, help_text="Calls that were not made; not those let through."
                            ),
                        ),
                        ("exhausted", models.BigIntegerField(default=0)),
                        ("degradations", models.BigIntegerField(default=0, help_text="Degradations that began.")),
                        ("model_fallbacks", models.BigIntegerField(default=0)),
                        ("calls", models.BigIntegerField(default=0)),
                        ("attempts", models.BigIntegerField(default=0)),
                        ("successes", models.BigIntegerField(default=0)),
                        (
                            "inner_retries",
                            models.BigIntegerField(
                                default=0, help_text="Retries by clients themselves, within attempts."
                            ),
                        ),
                        ("view", models.CharField(help_text="A word of `View`.", max_length=16)),
                        ("minutes", models.SmallIntegerField(help_text="How long the span is.")),
                        (
                            "span",
                            models.IntegerField(help_text="Which one it is: minutes since the epoch ÷ `minutes`."),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["environment", "view", "subject", "minutes", "span"], name="span_sum_by_subject"
                            ),
                            models.Index(
                                condition=models.Q(("provider__gt", ""), ("service__gt", "")),
                                fields=["environment", "view", "provider", "minutes", "span", "service"],
                                name="span_sum_of_provider",
                            ),
                            models.Index(
                                condition=models.Q(("service__gt", "")),
                                fields=["environment", "view", "service", "minutes", "span"],
                                name="span_sum_of_service",
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("service__gt", ""),
                                    models.Q(("fallbacks__gt", 0), ("rejections__gt", 0), _connector="OR"),
                                ),
                                fields=["environment", "view", "minutes", "span", "service"],
                                name="span_sum_refused",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "view", "minutes", "span", "dimensions"), name="span_sum_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Tally",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("name", models.CharField(max_length=32)),
                        ("count", models.BigIntegerField(default=0)),
                        ("last_us", models.BigIntegerField(default=0)),
                    ],
                    options={
                        "constraints": [models.UniqueConstraint(fields=("environment", "name"), name="tally_once")],
                    },
                ),
                migrations.CreateModel(
                    name="BreakerState",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("environment", models.CharField(max_length=64)),
                        ("breaker", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "seen_us",
                            models.BigIntegerField(help_text="The minute of the newest fact that names this breaker."),
                        ),
                        ("position", models.BinaryField(default=b"", max_length=32)),
                        ("at_us", models.BigIntegerField(help_text="Since when it is in this state.", null=True)),
                        ("state", models.CharField(default="closed", max_length=16)),
                        ("previous_state", models.CharField(default="", max_length=16)),
                        ("trigger", models.CharField(default="", max_length=32)),
                        ("operation", models.CharField(blank=True, default="", max_length=200)),
                        ("calls", models.BigIntegerField(null=True)),
                        ("failures", models.BigIntegerField(null=True)),
                        ("failure_rate", models.FloatField(null=True)),
                        ("threshold", models.FloatField(null=True)),
                        ("last_category", models.CharField(default="", max_length=32)),
                        ("wait_s", models.FloatField(null=True)),
                        ("override_id", models.CharField(default="", max_length=200)),
                        ("revision", models.BigIntegerField(null=True)),
                        (
                            "agent",
                            models.ForeignKey(
                                db_constraint=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="events.agent",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("environment", "breaker", "agent"), name="breaker_state_once"
                            )
                        ],
                    },
                ),
            ],
        ),
        events.store.migration_operations.CreateEngineTables(),
    ]
