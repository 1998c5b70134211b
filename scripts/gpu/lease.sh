#!/usr/bin/env bash
# Asks a lent GPU everything that only a GPU can say, the most valuable first, in one call of SECONDS:
#   bash .gpu-day/lease/lease.sh [SECONDS]
# in the root of a copied tree whose .gpu-day/bin and .gpu-day/lease come from scripts/gpu-day --pack. Every part has a time limit
# and a log of its own, and none stops another. All logs are in $OUT/logs.tgz (.gpu-day/out without $OUT); the summary is the last
# that is printed, at most 11,000 characters.
#   PARTS="bench-float32 hash"   these parts alone, in a second call on the same machine
#   DEVICE=cuda                  which must be there; cpu to rehearse without CUDA
#   SIZE=full                    small for a rehearsal; scripts/gpu-day --rehearse runs that on the fake driver
#   FAKE_CUDA=DIR                a fake driver (scripts/fake-cuda)
set -uo pipefail
lease=$(cd "$(dirname "$0")" && pwd)
limit=${1:-530} device=${DEVICE:-cuda} size=${SIZE:-full} fake=${FAKE_CUDA:-}
root=$PWD bin=$PWD/.gpu-day/bin out=${OUT:-$PWD/.gpu-day/out} work=${WORK:-/tmp/tealight-lease}
python=${PYTHON:-python3} torch_device=${TORCH_DEVICE:-$device}
mkdir -p "$out/logs" "$work"
: > "$out/summary"
tools() { "$python" "$lease/tools.py" "$@"; }
say() { echo "$*" | tee -a "$out/summary"; }

# --- The binaries: one archive for a first call, another (the conformance tests) for a second one.
for archive in "$bin/all.tar.xz" "$root/.gpu-day/second/all.tar.xz"; do
  if [ -e "$archive" ] && [ "$archive" -nt "$work/$(basename "$(dirname "$archive")").unpacked" ]; then
    tools unpack "$archive" "$bin" && touch "$work/$(basename "$(dirname "$archive")").unpacked"
  fi
done
if ! [ -x "$bin/tealight" ]; then echo "$bin/tealight is not there: make it with scripts/gpu-day --pack" >&2; exit 2; fi
echo "unpacked at $SECONDS s: $(cd "$bin" && echo *)"

# --- CUDA's libraries, for our programs alone: PyTorch brings its own.
libraries=$fake
for folder in /usr/local/nvidia/lib64 /usr/local/cuda/lib64 \
  $(python3 -c 'import nvidia.cu13 as m; print("\n".join(p + "/lib" for p in m.__path__))' 2> /dev/null); do
  if [ -d "$folder" ]; then libraries=$libraries${libraries:+:}$folder; fi
done
ours=${libraries}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export HF_HUB_OFFLINE=1 NO_COLOR=1 RUST_BACKTRACE=0 PYTHONUNBUFFERED=1
# Compiled kernels stay from call to call.
export HF_HOME=$work/hf CUDA_CACHE_PATH=$work/cuda CUDA_CACHE_MAXSIZE=4294967296
# What a part runs: at most `most` seconds, ended as a whole.
limited() { timeout --kill-after=5 "$most" "$@"; }
program() { LD_LIBRARY_PATH=$ours limited "$@"; }
tealight() { program "$bin/tealight" "$@"; }
peer() { limited "$python" "$lease/$1" "${@:2}"; }
has_torch() { "$python" -c 'import torch, transformers' 2> /dev/null; }

# --- A part: its name, the most seconds it may take, what of its log goes into the summary and how many lines, its command.
part() {
  local name=$1 most=$2 pattern=$3 lines=$4 began=$SECONDS code verdict polled
  shift 4
  # Limits are those of a GPU.
  if [ "$size" = small ]; then most=$((10 * most)); fi
  if [ -n "${PARTS:-}" ] && [[ " $PARTS " != *" $name "* ]]; then return; fi
  if [ "$most" -gt $((limit - SECONDS)) ]; then most=$((limit - SECONDS)); fi
  if [ "$most" -lt 8 ]; then say "$name: no time left"; return; fi
  polled=$(wc -l < "$work/memory.csv" 2> /dev/null || echo 0)
  export most
  "$@" > "$out/logs/$name" 2>&1
  code=$?
  verdict=$([ $code -eq 0 ] && echo ok || echo "FAILED $code")
  if [ $code -eq 124 ] || [ $code -eq 137 ]; then verdict="CUT OFF"; fi
  if [ $code -eq 75 ]; then verdict=skipped; fi
  # Said at once, since parts run beside each other.
  say "$(
    echo "$name: $verdict, $((SECONDS - began)) s of $SECONDS$(tools memory "$work/memory.csv" "$polled")"
    grep -aE "$pattern" "$out/logs/$name" | tail -n "$lines" | cut -c1-250 | sed 's/^/    /'
    if [ $code -ne 0 ] && [ $code -ne 75 ]; then
      grep -avE '^\s*$|stack backtrace|note: run with' "$out/logs/$name" | tail -n 5 | cut -c1-250 | sed 's/^/    ! /'
    fi
  )"
}

nvidia-smi > "$out/logs/nvidia-smi" 2>&1
say "$(git rev-parse --short HEAD 2> /dev/null || cat "$lease/revision" 2> /dev/null), $(date -u +%F), $(grep -m1 -oE 'Driver Version: [0-9.]+' "$out/logs/nvidia-smi" || echo 'no nvidia-smi')"
nvidia-smi --query-gpu=memory.used,utilization.gpu,clocks.sm,power.draw --format=csv,noheader,nounits -lms 250 \
  > "$work/memory.csv" 2> /dev/null &
poll=$!
trap 'kill $poll 2> /dev/null' EXIT

# --- 1. Are the kernels right? Nothing here is timed, so all of it runs side by side.
model=$work/model shape=(--prompts 32 --group 8 --prompt-len 100 --new-tokens 400) tokens=256 steps=40 samples=96
profiled=(--prompts 32 --group 8 --prompt-len 300 --new-tokens 12)
if [ "$size" = small ]; then
  shape=(--prompts 2 --group 2 --prompt-len 8 --new-tokens 24) tokens=6 steps=4 samples=4
fi
doctor() { tealight doctor --device "$device" --json; }
kernels() { program "$bin/device" --test-threads 1; }
conformance() {
  if ! [ -x "$bin/it" ]; then echo "skipped: the conformance tests are packed for a second call"; return 75; fi
  CARGO_MANIFEST_DIR=$root TEALIGHT_TEST_DEVICE=$device program "$bin/it" conformance:: half_precision:: --test-threads 4
}
weights() {
  rm -rf "$model"
  peer tools.py model "$model" "$size" && peer tools.py greedy "$model" "$torch_device" $tokens && return
  if ! has_torch; then echo "skipped: no torch; bench draws its own weights"; return 75; fi
  return 1
}
trains() {
  tealight train --model countdown --dataset countdown --device "$1" --dtype "$2" --seed 0 --learning-rate 1e-4 \
    --max-steps $steps --save-steps 1000 --output "$work/learn-$1-$2" --overwrite --quiet
}
part weights 100 'logp|skipped' 1 weights &
parts=($!)
part doctor 100 'compute what|is off|error' 3 doctor & parts+=($!)
part kernels 110 '^test result|panicked' 4 kernels & parts+=($!)
part conformance 110 '^test result|panicked|skipped' 4 conformance & parts+=($!)
part learn-cpu 100 'error' 1 trains cpu float32 & parts+=($!)
wait "${parts[@]}"

# --- 2. How fast is it, and beside what? One after the other.
fast=bfloat16
if [ "$device" = cpu ]; then fast=float32; fi
benched=$model
if ! [ -e "$model/model.safetensors" ]; then benched=$model/config.json; fi
rates='"(rollout_new_tokens_per_s|step_tokens_per_s|memory_plan_peak_bytes)":|one by one|error'
bench() {
  local dtype=$1 kernels=$2
  shift 2
  tealight bench --model "$benched" --device "$device" --dtype "$dtype" --kernels "$kernels" "$@" --json || return
}
# A run would go on without graphs, and be slower.
with_graphs() { bench "$@" 2>&1 | tee "$work/bench.log"; [ "${PIPESTATUS[0]}" -eq 0 ] && ! grep -q 'one by one' "$work/bench.log"; }
peers() {
  if ! has_torch; then echo "skipped: no torch and transformers"; return 75; fi
  peer peers.py "$model/config.json" --device "$torch_device" "${shape[@]}"
}
part bench-$fast 110 "$rates" 9 with_graphs $fast tealight "${shape[@]}" --reps 3 --max-seconds 50
part peers 150 'per_s|tflops|gb_s|logits|failed|skipped' 7 peers

# --- 3. Does it learn and say what the CPU does?
curves() {
  tools curves "cpu=$work/learn-cpu-float32" "$device-float32=$work/learn-$device-float32" "$device-$fast=$work/learn-$device-$fast"
}
greedy() {
  local each failed=0
  for each in cpu "$device"; do
    tealight eval --model countdown --dataset countdown --device "$each" --dtype float32 --temperature 0 -n 1 -k 1 \
      --max-samples $samples --seed 0 --output "$work/eval-$each" --overwrite --quiet || failed=1
  done
  tools same "$work/eval-cpu" "$work/eval-$device" || failed=1
  if [ -e "$model/model.safetensors" ]; then
    for each in cpu:float32 "$device:float32" "$device:$fast"; do
      echo "$each: $(tealight generate 'What is 12 * 7?' --raw --model "$model" --device "${each%:*}" --dtype "${each#*:}" \
        --temperature 0 --max-completion-length $tokens --json 2>&1 | grep -oE '"logp": ?[-0-9.]+|error.*' | tail -n 1)"
    done
  fi
  return $failed
}
part learn-float32 40 'error' 1 trains "$device" float32
part learn-$fast 40 'error' 1 trains "$device" $fast
part curves 20 '.' 4 curves
part greedy 70 'completions|logp|error' 5 greedy

# --- 4. Where does the time go?
ncu=$(command -v ncu || ls /opt/nvidia/nsight-compute/*/ncu 2> /dev/null | tail -n 1)
profile() {
  local name=$1 skip=$2 count=$3
  shift 3
  if [ -z "$ncu" ]; then echo "skipped: no ncu"; return 75; fi
  LD_LIBRARY_PATH=$ours limited "$ncu" --clock-control none --csv --page raw --print-units base --kill yes \
    --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum --log-file "$out/logs/$name.csv" \
    --launch-skip "$skip" --launch-count "$count" "$bin/tealight" bench --model "$benched" --device "$device" --dtype $fast \
    --kernels eager "$@" --reps 1 > "$out/logs/$name.said" 2>&1
  tools profile "$out/logs/$name.csv"
}
part ncu-decode 70 '%|launches|skipped' 15 profile decode 1500 660 "${profiled[@]}" --rollout-only
# Few tokens are sampled, so that the launches after those of two rollouts are those of training.
part ncu-train 90 '%|launches|skipped' 15 profile train 3200 2200 --prompts 8 --group 1 --prompt-len 400 --new-tokens 4

# --- 5. With what time is left.
hash() {
  local each
  for each in 1 2; do
    tealight train --model countdown --dataset countdown --device "$device" --max-samples 8 --max-steps 3 --seed 0 \
      --output "$work/hash$each" --overwrite --quiet || return 1
    sha256sum < "$work/hash$each/final/model.safetensors"
  done
  cmp "$work/hash1/final/model.safetensors" "$work/hash2/final/model.safetensors"
}
sanitizer() {
  if ! command -v compute-sanitizer > /dev/null; then echo "skipped: no compute-sanitizer"; return 75; fi
  program compute-sanitizer --tool "$1" --error-exitcode 9 "$bin/device" --exact \
    self_check::every_kernel_is_launched_and_is_what_it_is_on_the_cpu
}
part bench-eager 60 "$rates" 9 bench $fast eager "${shape[@]}" --reps 2 --max-seconds 20 --rollout-only
part bench-float32 100 "$rates" 9 with_graphs float32 tealight "${shape[@]}" --reps 1 --max-seconds 20
part hash 30 '-' 2 hash
for tool in memcheck racecheck; do part sanitizer-$tool 120 'ERROR SUMMARY|hazard|Invalid|skipped' 3 sanitizer $tool; done

# --- The end: everything in one file, and what matters last.
kill $poll 2> /dev/null
cp "$work/memory.csv" "$out/logs/" 2> /dev/null
for run in "$work"/learn-*; do cp "$run/metrics.jsonl" "$out/logs/$(basename "$run").jsonl" 2> /dev/null; done
tar -C "$out" -czf "$work/logs.tgz" logs summary && rm -rf "$out/logs" && mv "$work/logs.tgz" "$out/logs.tgz"
failed=$(grep -cE '^[a-z0-9-]+: (FAILED|CUT OFF)' "$out/summary")
say "$failed parts failed or were cut off"
echo
echo "===== summary, $SECONDS s"
tail -c 11000 "$out/summary"
[ "$failed" -eq 0 ]
