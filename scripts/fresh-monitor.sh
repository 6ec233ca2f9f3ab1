# Prometheus and Alertmanager in the bare Debian of scripts/fresh, with the services of scripts/fresh-packages.sh. Sourced by scripts/fresh, never run.
# shellcheck shell=bash
#
# Runs the commands of docs/countd/deploy.md as they are written: "Install Prometheus" in the chroot, which has a network, and "Monitor" when
# systemd is booted and countd runs. An alert fires while countd is stopped, and is resolved when it runs again. A receiver at the address of the page's
# webhook gets both from Alertmanager.

# To be called before `boot`.
install_monitor() {
    # As in build_and_install: nothing is started in the chroot.
    printf '#!/bin/sh\nexit 101\n' >"$FRESH/usr/sbin/policy-rc.d"
    chmod 755 "$FRESH/usr/sbin/policy-rc.d"
    quietly "installed Prometheus" "${ENTER[@]}" "$CLONE" env DEBIAN_FRONTEND=noninteractive sh -c "$(section 'Install Prometheus')"
    rm "$FRESH/usr/sbin/policy-rc.d"
}

# notified STATUS: whether the receiver was told this of the alert, with what people need: its severity and its runbook.
notified() {
    in_boot grep --quiet "^{.*\"status\":\"$1\".*\"alertname\":\"CountdDown\".*\"severity\":\"critical\".*runbooks.md#countddown" /tmp/alerts
}

# To be called while countd and Redis run. The alert waits for two minutes, and Alertmanager for another minute before it tells that it is resolved.
try_monitor() {
    in_boot_quietly "started a receiver of alerts" \
        "systemd-run --quiet --unit alert-receiver $CLONE/scripts/alert-receiver 9099 /tmp/alerts"
    section Monitor >"$FRESH/tmp/monitor.sh"
    in_boot_quietly "an alert fired and was resolved as the page says" "cd $CLONE && timeout 600 sh /tmp/monitor.sh"
    in_boot_quietly "Prometheus has the rules" 'curl --fail --silent http://127.0.0.1:9090/api/v1/rules | grep CountdNoConsumer'
    in_boot_quietly "and the metrics" 'promtool query instant http://127.0.0.1:9090 countd_live_consumers | grep countd'
    until_within 60 "the receiver is told that the alert fires" notified firing
    until_within 180 "the receiver is told that it is resolved" notified resolved
    say "fresh: Alertmanager told the receiver that the alert fired, and that it was resolved"
    in_boot_quietly "stopped Prometheus" 'systemctl disable --now prometheus prometheus-alertmanager && systemctl stop alert-receiver'
}
