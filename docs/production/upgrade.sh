#!/bin/sh
# Upgrade without downtime: `upgrade.sh /opt/recovery-ops-2`, as root, on the machine of the units.
# That directory holds the new version with a .venv of its own; /opt/recovery-ops is a link to the one that runs.
# The shell reads the environment file as systemd does, where values that hold more than letters, digits and .:/@?=_- are in '…'.
set -eu
new=$1
[ -L /opt/recovery-ops ] || { echo "/opt/recovery-ops is no link" >&2; exit 1; }
set -a
. /etc/recovery-ops.env
RECOVERY_OPS_DATA=/var/lib/recovery-ops
set +a

# 1. A way back.
pg_dump --format=custom --file=/var/backups/recovery-ops.dump "$RECOVERY_OPS_DATABASE_URL"

# 2. Tables and files of the new version, beside which the old one goes on.
cd "$new"
runuser -u recovery -- .venv/bin/python manage.py migrate --verbosity 0
runuser -u recovery -- .venv/bin/python manage.py collectstatic --noinput --verbosity 0

# 3. One web process after the other; the next only when the one before it can store.
ln -sfn "$new" /opt/recovery-ops
for number in 01 02; do
    systemctl restart "recovery-ops-web@$number"
    until .venv/bin/python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:80$number/readyz', timeout=5)" 2>/dev/null; do
        systemctl is-active --quiet "recovery-ops-web@$number" || exit 1
        sleep 0.2
    done
done

# 4. What works in the background: what is due stands in tables.
systemctl restart recovery-ops-worker
systemctl restart recovery-ops-beat
