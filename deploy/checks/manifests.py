"""Usage: manifests.py check | compose SERVICE | kubernetes FILE

check: the Kubernetes manifests and the compose file fit each other, the container file and the configurations.
compose SERVICE: prints the environment of a service, with the variables of this environment, one NAME=VALUE a line.
kubernetes FILE: writes countd.toml of the ConfigMap to FILE and prints the environment of the container countd in the same way. The keys of
the Secret are variables of this environment: SECRET_REDIS_PASSWORD is redis-password.
"""

import os
import re
import sys
from pathlib import Path

import yaml

DEPLOY = Path(__file__).resolve().parent.parent
problems = []


def require(condition, problem):
    if not condition:
        problems.append(problem)


def objects():
    """The objects of all manifests, by kind and name."""
    found = {}
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for one in yaml.safe_load_all(file.read_text()):
            found[one["kind"], one.get("metadata", {}).get("name")] = one
    return found


def compose():
    return yaml.safe_load((DEPLOY / "compose.yml").read_text())


def container_file():
    """The instructions of each stage."""
    text = (DEPLOY / "container/Containerfile").read_text()
    stages = re.split(r"^FROM \S+ AS (\w+)$", text, flags=re.M)
    return dict(zip(stages[1::2], stages[2::2]))


def check_stage(stage, user, port):
    require(f"\nUSER {user}:{user}\n" in stage, f"the image runs as {user}")
    require(f"--uid {user} " in stage, f"the image has the user {user}")
    require(f"\nEXPOSE {port}\n" in stage, f"the image exposes {port}")


def check_workload(manifests, workload, service, budget, image, stage):
    """A StatefulSet or Deployment, its Service, PodDisruptionBudget and image."""
    name, spec = f"{workload['kind']} {workload['metadata']['name']}", workload["spec"]
    labels, pod = spec["template"]["metadata"]["labels"], spec["template"]["spec"]
    for selector, of in [
        (spec["selector"]["matchLabels"], name),
        (service["spec"]["selector"], f"Service of {name}"),
        (budget["spec"]["selector"]["matchLabels"], f"PodDisruptionBudget of {name}"),
    ]:
        require(selector and selector.items() <= labels.items(), f"{of} selects {selector}, but pods have {labels}")
    ports = {port["name"]: port["containerPort"] for one in pod["containers"] for port in one.get("ports", [])}
    for port in service["spec"]["ports"]:
        require(port["targetPort"] in ports, f"{name} has no port {port['targetPort']}")
        require(ports.get(port["targetPort"]) == port["port"], f"{name}: {ports}")
        check_stage(stage, pod["securityContext"]["runAsUser"], port["port"])
    for one in pod["containers"]:
        for probe in ["readinessProbe", "livenessProbe"]:
            require(probe in one, f"{name} has no {probe}")
            port = one.get(probe, {}).get("httpGet", one.get(probe, {}).get("tcpSocket", {})).get("port")
            require(port is None or port in ports, f"{name}: {probe} of {port}")
    for one in pod["containers"] + pod.get("initContainers", []):
        require(one["image"] == image, f"{name}: image {one['image']}")
        require("limits" in one["resources"], f"{name} has no memory limit")
        context = one["securityContext"]
        hardened = context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
        require(hardened and context["capabilities"] == {"drop": ["ALL"]}, f"{name} is not hardened")
        check_mounts(manifests, name, pod, spec, one)
    require(pod["securityContext"]["runAsNonRoot"], f"{name} may run as root")


def check_mounts(manifests, name, pod, spec, container):
    claims = {one["metadata"]["name"] for one in spec.get("volumeClaimTemplates", [])}
    volumes = {one["name"]: one for one in pod.get("volumes", [])}
    for mount in container.get("volumeMounts", []):
        require(mount["name"] in claims | set(volumes), f"{name} has no volume {mount['name']}")
    for volume in volumes.values():
        require(("ConfigMap", volume["configMap"]["name"]) in manifests, f"{name}: no {volume}")


def check_kubernetes():
    manifests, stages = objects(), container_file()
    files = {file.name for file in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    kustomization = manifests["Kustomization", None]
    require(set(kustomization["resources"]) == files, f"kustomization.yaml lists {kustomization['resources']}, but there are {files}")
    namespace = kustomization["namespace"]
    require(("Namespace", namespace) in manifests, f"there is no namespace {namespace}")
    version = re.search(r'^version = "(.*)"', (DEPLOY.parent / "Cargo.toml").read_text(), re.M).group(1)
    images = {image["name"]: image["newTag"] for image in kustomization["images"]}
    require(images == {"countint/redis": version, "countint/countd": version}, f"images: {images}")
    for kind, name, image in [("StatefulSet", "redis", "redis"), ("Deployment", "countd", "countd")]:
        parts = [manifests.get((part, name)) for part in [kind, "Service", "PodDisruptionBudget"]]
        require(all(parts), f"a part of {name} is missing")
        check_workload(manifests, *parts, f"countint/{image}", stages[image])
        policy = manifests["NetworkPolicy", name]["spec"]
        labels = parts[0]["spec"]["template"]["metadata"]["labels"]
        require(policy["podSelector"]["matchLabels"].items() <= labels.items(), f"NetworkPolicy {name} selects no pod")
        require(policy["policyTypes"] == ["Ingress", "Egress"], f"NetworkPolicy {name} leaves a direction open")


def check_compose():
    services, stages = compose()["services"], container_file()
    for name, service in services.items():
        build = service.get("build")
        require(build is None or build["target"] in stages, f"compose: no stage {build}")
        require(service["cap_drop"] == ["ALL"], f"compose: {name} keeps capabilities")
        for port in service.get("ports", []):
            require(port.startswith("127.0.0.1:"), f"compose: {name} publishes {port}")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            require(not source.startswith("./") or (DEPLOY / source).is_file(), f"compose: no file {source}")
        for dependency, how in service.get("depends_on", {}).items():
            require(dependency in services, f"compose: no service {dependency}")
            optional = set(services.get(dependency, {}).get("profiles", [])) - set(service.get("profiles", []))
            require(not optional or how.get("required") is False, f"compose: {name} requires {dependency}, which only {optional} has")
    require("ports" not in services["redis"], "compose publishes Redis")
    check_kafka(services)
    scraped = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    targets = [target for job in scraped for config in job["static_configs"] for target in config["targets"]]
    require(targets == ["countd:8090"] and "\nEXPOSE 8090\n" in stages["countd"], f"Prometheus scrapes {targets}")


def check_kafka(services):
    """The broker, the topic and the settings of countd name each other."""
    broker, environment = services["kafka"]["environment"], services["countd"]["environment"]
    address = broker["KAFKA_ADVERTISED_LISTENERS"].removeprefix("PLAINTEXT://")
    require(environment["COUNTD_KAFKA__BROKERS"] == f'["{address}"]', f"compose: the broker is {address}")
    require(f"--bootstrap-server={address}" in services["topic"]["command"], f"compose: topic does not use {address}")
    require(services["topic"]["image"] == services["kafka"]["image"], "compose: topic and kafka have different images")
    configuration = (DEPLOY.parent / "docs/countd/kafka.md").read_text()
    topic = re.search(r"^\| `kafka.topic` \| `([^`]+)`", configuration, re.M).group(1)
    require(f"--topic={topic}" in services["topic"]["command"], f"compose: the topic of countd is {topic}")
    require(environment["COUNTD_LOG__KIND"] == "${COUNTD_LOG_KIND:-streams}", "compose: the log is not streams by default")


def interpolate(text):
    """Replaces ${NAME}, ${NAME:?error} and ${NAME:-default}."""

    def value(found):
        name, default = found.group(1), found.group(2)
        return os.environ[name] if default is None else os.environ.get(name) or default

    return re.sub(r"\$\{(\w+)(?::\?[^}]*|:-([^}]*))?\}", value, text)


def compose_environment(service):
    for name, value in compose()["services"][service]["environment"].items():
        print(f"{name}={interpolate(value)}")


def kubernetes_environment(file):
    manifests = objects()
    Path(file).write_text(manifests["ConfigMap", "countd"]["data"]["countd.toml"])
    values = {}
    for one in manifests["Deployment", "countd"]["spec"]["template"]["spec"]["containers"][0]["env"]:
        value = one.get("value")
        if value is None:
            key = one["valueFrom"]["secretKeyRef"]["key"]
            value = os.environ["SECRET_" + key.replace("-", "_").upper()]
        # Kubernetes replaces $(NAME) by the value of a variable before it.
        values[one["name"]] = re.sub(r"\$\((\w+)\)", lambda found: values[found.group(1)], value)
    for name, value in values.items():
        print(f"{name}={value}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["check"]:
            check_kubernetes()
            check_compose()
        case ["compose", service]:
            compose_environment(service)
        case ["kubernetes", file]:
            kubernetes_environment(file)
        case _:
            sys.exit(__doc__)
    if problems:
        sys.exit("\n".join(problems))
