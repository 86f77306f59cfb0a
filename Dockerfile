# Images of amqproxy: `proxy`, the default, with its dashboard; `pipeline`, with Spark.
#
#   docker build -t amqproxy .
#   docker run --rm --read-only --tmpfs /tmp -p 5672:5672 amqproxy run --listen 0.0.0.0:5672 --upstream broker:5672 --metrics 0.0.0.0:9419
#
#   docker build -t amqproxy-pipeline --target pipeline .
#   docker run --rm -v ./captures:/captures -v tables:/tables amqproxy-pipeline amqproxy pipeline run /captures --tables /tables
#
# The base is pinned by its digest, which a release looks up: --build-arg PYTHON=python:3.13-slim-bookworm@sha256:…
# Here it is not: packaging/unpinned.txt lists all that is not.
ARG PYTHON=python:3.13-slim-bookworm
ARG VERSION=0.2.0
ARG REVISION=unknown

# --- what compiles: nothing of it is in an image
# hadolint ignore=DL3006
FROM ${PYTHON} AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
ENV AMQPROXY_COMPILE=1 AMQPROXY_SBOM=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY . .
# Installed where pip is wanted, and only copied where it is not.
# hadolint ignore=DL3013
RUN pip wheel --no-deps --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/amqproxy \
    && pip --python /opt/amqproxy/bin/python install "$(echo /wheels/*.whl)[bodies,captures,dashboard,logins,otel]" \
    && /opt/amqproxy/bin/amqproxy version
# What is installed, as CycloneDX: in each image, where scanners look for it too.
# hadolint ignore=DL3013
RUN python -m venv /cyclonedx \
    && /cyclonedx/bin/pip install "cyclonedx-bom>=7" \
    && mkdir -p /opt/amqproxy/share/sbom \
    && /cyclonedx/bin/cyclonedx-py environment --pyproject pyproject.toml \
        --output-file /opt/amqproxy/share/sbom/amqproxy.cdx.json /opt/amqproxy/bin/python

# --- Spark, as the driver and the executors of a cluster, or by itself
FROM build AS build-pipeline
# hadolint ignore=DL3013
RUN pip --python /opt/amqproxy/bin/python install "$(echo /wheels/*.whl)[pipeline]" \
    && /cyclonedx/bin/cyclonedx-py environment --pyproject pyproject.toml \
        --output-file /opt/amqproxy/share/sbom/amqproxy.cdx.json /opt/amqproxy/bin/python \
    && ln -s "$(/opt/amqproxy/bin/python -c 'import pyspark; print(pyspark.__path__[0])')" /opt/amqproxy/spark \
    && ln -s "$(/opt/amqproxy/bin/python -c 'import amqproxy.cli; print(amqproxy.cli.__path__[0])')/pipeline/__main__.py" \
        /opt/amqproxy/pipeline.py

# hadolint ignore=DL3006
FROM ${PYTHON} AS pipeline
ARG PYTHON
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="amqproxy-pipeline" \
      org.opencontainers.image.description="What amqproxy recorded, as tables on Spark" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/amqproxy/amqproxy" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/${PYTHON}"
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 185 --create-home --shell /usr/sbin/nologin spark
COPY --from=build-pipeline /opt/amqproxy /opt/amqproxy
COPY helm/spark-entrypoint.sh /opt/entrypoint.sh
ENV PATH=/opt/amqproxy/bin:/opt/amqproxy/spark/bin:$PATH PYTHONUNBUFFERED=1 SPARK_HOME=/opt/amqproxy/spark \
    PYSPARK_PYTHON=/opt/amqproxy/bin/python PYSPARK_DRIVER_PYTHON=/opt/amqproxy/bin/python
WORKDIR /home/spark
USER 185:185
ENTRYPOINT ["/usr/bin/tini", "-s", "--", "/opt/entrypoint.sh"]
CMD ["amqproxy", "pipeline", "--help"]

# --- the proxy
# hadolint ignore=DL3006
FROM ${PYTHON} AS proxy
ARG PYTHON
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="amqproxy" \
      org.opencontainers.image.description="A man-in-the-middle for AMQP: see, count, record and change what passes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/amqproxy/amqproxy" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/${PYTHON}"
COPY --from=build /opt/amqproxy /opt/amqproxy
ENV PATH=/opt/amqproxy/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, so that Kubernetes sees that it is not root; what is written is in volumes.
USER 10001:10001
WORKDIR /var/lib/amqproxy
# AMQP, metrics, dashboard
EXPOSE 5672 9419 8672
# With the metrics elsewhere: docker run --no-healthcheck. Kubernetes has probes of its own.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:9419/healthz', timeout=2)"]
ENTRYPOINT ["amqproxy"]
CMD ["--help"]
