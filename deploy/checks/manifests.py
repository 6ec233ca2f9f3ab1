"""Usage: manifests.py check | compose SERVICE DIRECTORY | kubernetes DIRECTORY

check: the Kubernetes manifests and the compose file fit each other, the container file and the configurations.
compose SERVICE DIRECTORY: prints the environment of a service, with the variables of this environment, one NAME=VALUE a line. Paths of secrets are
those of files in DIRECTORY, which takes the place of deploy/.
kubernetes DIRECTORY: prints the environment of the container countd in the same way. Below DIRECTORY it writes the files that are mounted, as
Kubernetes does: each is a link into the directory to which ..data is a link. The keys of the Secret are variables of this environment:
SECRET_REDIS_PASSWORD is redis-password.
"""

import os
import re
import sys
from pathlib import Path

import yaml

DEPLOY = Path(__file__).resolve().parent.parent
# The Secret that the operator creates.
SECRET = "countint"
# Where Compose mounts secrets.
SECRETS = "/run/secrets/"
problems = []


class Key(str):
    """A key of the Secret."""

    def value(self):
        return os.environ["SECRET_" + self.replace("-", "_").upper()]


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
        if "secret" in volume:
            check_secret(name, volume["secret"], pod["securityContext"])
        else:
            require(("ConfigMap", volume["configMap"]["name"]) in manifests, f"{name}: no {volume}")
    mounted = mounted_files(manifests, pod, container)
    for variable in container.get("env", []):
        require("TOKENS" not in variable["name"] or "value" in variable, f"{name}: {variable['name']} cannot be replaced without a restart")
        if is_file(variable["name"]):
            require(variable["value"] in mounted, f"{name}: {variable} is none of {sorted(mounted)}")
    for mount in container.get("volumeMounts", []):
        require("subPath" not in mount, f"{name}: {mount} would not follow changes")


def check_secret(name, secret, security):
    """A volume with keys of the Secret, which the process alone can read."""
    require(secret["secretName"] == SECRET, f"{name}: no Secret {secret['secretName']}")
    keys = {item["key"] for item in secret["items"]}
    require(keys <= documented_keys(), f"{name}: {keys} are not on the page")
    is_private = secret["defaultMode"] == 0o440 and security["fsGroup"] == security["runAsGroup"]
    require(is_private, f"{name} cannot read the Secret, or others can")


def documented_keys():
    """The keys with which docs/countd/deploy.md creates the Secret."""
    page = (DEPLOY.parent / "docs/countd/deploy.md").read_text()
    return set(re.findall(r"--from-(?:literal|file)=([\w-]+)=", page))


def is_file(variable):
    return variable == "COUNTD_CONFIG" or variable.endswith("_FILE")


def mounted_files(manifests, pod, container):
    """The content of each file that a container has by its mounts, or the key of the Secret that it is, by path."""
    volumes = {one["name"]: one for one in pod.get("volumes", [])}
    files = {}
    for mount in container.get("volumeMounts", []):
        volume = volumes.get(mount["name"], {})
        if "configMap" in volume:
            found = manifests["ConfigMap", volume["configMap"]["name"]]["data"]
        else:
            found = {item["path"]: Key(item["key"]) for item in volume.get("secret", {}).get("items", [])}
        files.update({f"{mount['mountPath']}/{name}": content for name, content in found.items()})
    return files


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
    read = {"prometheus": [job["authorization"]["credentials_file"] for job in scraped]}
    for name, service in services.items():
        environment = service.get("environment", {})
        require("COUNTD_AUTH__TOKENS" not in environment, f"compose: tokens of {name} cannot be replaced without a restart")
        read.setdefault(name, []).extend(value for variable, value in environment.items() if is_file(variable))
        secrets = service.get("secrets", [])
        for path in read[name]:
            require(path.removeprefix(SECRETS) in secrets, f"compose: {name} has no {path}")
        for secret in secrets:
            require("file" in compose()["secrets"].get(secret, {}), f"compose: {secret} is no file")
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


def compose_environment(service, directory):
    files = {name: one["file"] for name, one in compose()["secrets"].items()}
    for name, value in compose()["services"][service]["environment"].items():
        if value.startswith(SECRETS):
            value = str(Path(directory) / files[value.removeprefix(SECRETS)])
        print(f"{name}={interpolate(value)}")


def write_mounted(files, directory):
    for path, content in files.items():
        file = Path(directory + path)
        data = file.parent / "..first"
        data.mkdir(parents=True, exist_ok=True)
        (data / file.name).write_text(content.value() if isinstance(content, Key) else content)
        for link, to in [(file.parent / "..data", data.name), (file, f"..data/{file.name}")]:
            if not link.is_symlink():
                link.symlink_to(to)


def kubernetes_environment(directory):
    manifests = objects()
    pod = manifests["Deployment", "countd"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    write_mounted(mounted_files(manifests, pod, container), directory)
    values = {}
    for one in container["env"]:
        value = one.get("value")
        if value is None:
            value = Key(one["valueFrom"]["secretKeyRef"]["key"]).value()
        if is_file(one["name"]):
            value = directory + value
        # Kubernetes replaces $(NAME) by the value of a variable before it.
        values[one["name"]] = re.sub(r"\$\((\w+)\)", lambda found: values[found.group(1)], value)
    for name, value in values.items():
        print(f"{name}={value}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["check"]:
            check_kubernetes()
            check_compose()
        case ["compose", service, directory]:
            compose_environment(service, directory)
        case ["kubernetes", directory]:
            kubernetes_environment(directory)
        case _:
            sys.exit(__doc__)
    if problems:
        sys.exit("\n".join(problems))
