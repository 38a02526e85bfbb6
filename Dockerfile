# syntax=docker/dockerfile:1.7
# Images of the server. docs/deploy.md says how to build and run them.
#   docker build --target cpu -t rhapsode:cpu .
#   docker build --target cuda -t rhapsode:cuda .
#   docker build --target cuda-kernels --build-context kernels=./kernels -t rhapsode:cuda-kernels .

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

# A virtual environment is moved between stages as one folder: pip and its cache stay behind.
FROM python:3.11-slim-bookworm AS packages
ARG EXTRAS=serve
RUN python -m venv /opt/rhapsode
COPY constraints.txt /
COPY --from=wheel /wheels /wheels

FROM packages AS packages-cpu
# The CPU build of PyTorch: the one on PyPI brings 5 GB of CUDA libraries.
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/rhapsode/bin/pip install --disable-pip-version-check -c /constraints.txt \
    --extra-index-url https://download.pytorch.org/whl/cpu "$(ls /wheels/*.whl)[$EXTRAS]"

FROM packages AS packages-cuda
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/rhapsode/bin/pip install --disable-pip-version-check -c /constraints.txt "$(ls /wheels/*.whl)[$EXTRAS]"

FROM python:3.11-slim-bookworm AS server
# tini forwards signals from the first moment on: a process with number 1 ignores SIGTERM until it handles it.
# wget is for the health check, and for the probes that KubeRay adds to its pods. The C compiler builds the kernels of a
# CPU, for the processor it runs on, and the launchers of Triton's kernels, unless they are in the kernel cache.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev tini wget \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home rhapsode \
    && install -d -o rhapsode -g rhapsode /voices /models /kernels
ENV PATH=/opt/rhapsode/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/models \
    TRITON_CACHE_DIR=/kernels \
    XDG_CACHE_HOME=/kernels \
    RHAPSODE_SERVER__HOST=0.0.0.0 \
    RHAPSODE_SERVER__PORT=8000 \
    RHAPSODE_SERVER__VOICES=/voices
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=5m --start-interval=1s --retries=3 \
    CMD ["sh", "-c", "wget -q --no-proxy -O /dev/null http://127.0.0.1:$RHAPSODE_SERVER__PORT/health || exit 1"]
ENTRYPOINT ["tini", "--", "rhapsode"]
CMD ["serve"]

FROM server AS cpu
COPY --from=packages-cpu /opt/rhapsode /opt/rhapsode
USER 10001

FROM server AS cuda
COPY --from=packages-cuda /opt/rhapsode /opt/rhapsode
USER 10001

# With compiled kernels. `kernels` is a folder that `rhapsode compile` has filled on a machine with the same kind of GPU.
FROM cuda AS cuda-kernels
# hadolint ignore=DL3022
COPY --from=kernels --chown=rhapsode:rhapsode . /kernels
