# Two stages: one has a compiler and builds a wheel; the other has neither compiler nor caches, and is not root.
#
#   docker build -t amqproxy .
#   docker run --rm -p 5672:5672 -p 9419:9419 amqproxy run --listen 0.0.0.0:5672 --upstream broker:5672

FROM python:3.11-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /source
COPY . .
ENV AMQPROXY_COMPILE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN pip wheel --wheel-dir /wheels .
# Installed here, where pip is wanted, and only copied there, where it is not.
RUN python -m venv --without-pip /opt/amqproxy \
    && pip --python /opt/amqproxy/bin/python install --no-index --find-links /wheels amqproxy

FROM python:3.11-slim-bookworm
RUN useradd --system --no-create-home --shell /usr/sbin/nologin amqproxy
COPY --from=build /opt/amqproxy /opt/amqproxy
ENV PATH=/opt/amqproxy/bin:$PATH PYTHONUNBUFFERED=1
USER amqproxy
# AMQP, and the metrics
EXPOSE 5672 9419
ENTRYPOINT ["amqproxy"]
CMD ["--help"]
