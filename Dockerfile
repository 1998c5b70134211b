# The binary `tealight` in an image of its own.
#   docker build -t tealight .
#   docker run --rm -v "$PWD":/work tealight study --output study
# For CUDA (the compute capability of the card: 80 for A100, 90 for H100):
#   docker build -t tealight:cuda --build-arg FEATURES=cuda --build-arg CUDA_COMPUTE_CAP=90 \
#     --build-arg BUILD=nvidia/cuda:12.8.1-devel-ubuntu24.04 --build-arg RUN=nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04 .
#   docker run --rm --gpus all -v "$PWD":/work tealight:cuda doctor --device cuda
ARG BUILD=debian:bookworm
ARG RUN=debian:bookworm-slim

FROM ${BUILD} AS build
ARG FEATURES=
ARG CUDA_COMPUTE_CAP=80
ENV DEBIAN_FRONTEND=noninteractive CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP} PATH=/root/.cargo/bin:$PATH
RUN apt-get update && apt-get install -y --no-install-recommends build-essential ca-certificates curl git \
 && rm -rf /var/lib/apt/lists/* \
 && curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal -c rustfmt -c clippy
WORKDIR /source
COPY . .
RUN cargo build --release --locked --features "${FEATURES}" --bin tealight && strip target/release/tealight

FROM ${RUN}
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home tealight && mkdir /work && chown tealight /work
COPY --from=build /source/target/release/tealight /usr/local/bin/tealight
COPY --from=build /source/LICENSE-MIT /source/LICENSE-APACHE /usr/share/doc/tealight/
USER tealight
WORKDIR /work
# The cache of models: mount a folder here to keep it.
ENV HF_HOME=/home/tealight/.cache/huggingface
ENTRYPOINT ["tealight"]
