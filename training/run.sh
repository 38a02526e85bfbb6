#!/usr/bin/env bash
# The steps of a training run, each one command on the machine with the GPU. WORK holds all that is made.
#   bash training/run.sh STEP [MINUTES]
# Steps, in order: check, share, tokenizer, speak, codec, speaker, encode, talker, polish, pack; save after each that
# trains, save-codes after encode; restore or resume at the start of a later run; sample-shards for the gate. All can be
# repeated: training resumes.
set -euo pipefail
cd "$(dirname "$0")"
export PYTHONPATH=../src PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
PYTHON=${PYTHON:-python3} WORK=${WORK:-../work} KOKORO=${KOKORO:-../carried/kokoro} SPOKEN=${SPOKEN:-../carried/spoken.tsv.gz}
MODEL=$WORK/model SHARDS=$WORK/shards LINES=$WORK/lines CODES=${CODES:-$WORK/codes}
mkdir -p "$MODEL/speech_tokenizer" "$SHARDS" "$LINES" "$CODES"
step=$1 minutes=${2:-8}

beside() { # runs on after this command has ended, with a log of its own
    setsid nohup "${@:2}" > "$WORK/$1.log" 2>&1 < /dev/null &
}

case $step in
check) # what is here, and whether the teacher speaks
    $PYTHON -c 'import torch, kokoro, tokenizer, train_codec, speaker, encode, train_talker, pack; print(torch.__version__, torch.cuda.is_available())'
    ls -l "$KOKORO" "$SPOKEN" || true
    ;;
share) # so that the teacher and the training use the GPU at the same time, not in turns
    setsid nvidia-cuda-mps-control -d
    timeout 20 $PYTHON -c 'import torch; torch.ones(1).cuda()' || echo quit | nvidia-cuda-mps-control
    ;;
tokenizer)
    $PYTHON tokenizer.py "$SPOKEN" "$MODEL"
    ;;
speak) # in the background; MINUTES of it
    beside speak $PYTHON kokoro.py speak "$SPOKEN" "$KOKORO" "$SHARDS" \
        --processes "${PROCESSES:-4}" --seconds $((minutes * 60)) ${SPEAK:-}
    sleep "${HEAD_START:-40}"
    cat "$WORK/speak.log"
    ;;
codec)
    $PYTHON train_codec.py "$SHARDS" "$MODEL/speech_tokenizer" --minutes "$minutes" ${CODEC:-}
    ;;
speaker)
    $PYTHON speaker.py "$SHARDS" "$KOKORO" "$MODEL" --minutes "$minutes" ${SPEAKER:-}
    ;;
encode) # in the background, for the talker that is started next; from CODES of an earlier run, too
    beside encode $PYTHON encode.py "$SPOKEN" "$SHARDS" "$MODEL" "$LINES" --codes "$CODES" \
        --processes "${PROCESSES:-4}" ${ENCODE:-}
    sleep "${HEAD_START:-20}"
    cat "$WORK/encode.log"
    ;;
talker)
    $PYTHON train_talker.py "$LINES" "$MODEL" --minutes "$minutes" ${TALKER:-}
    ;;
polish) # only the decoder, with discriminators from the start; codes stay as the talker knows them
    $PYTHON train_codec.py "$SHARDS" "$MODEL/speech_tokenizer" --minutes "$minutes" --learn decoder --adversarial-after 0 ${CODEC:-}
    ;;
pack)
    $PYTHON pack.py "$MODEL" "$WORK/voice"
    ;;
save) # what the next run needs, in files of at most 15 MB: OUT is where they are fetched from
    tar -C "$WORK" -cf - model | split -b 15000000 - "${OUT:?}/model.tar."
    tail -n 40 "$WORK"/*.log || true
    ls -l "$OUT"
    ;;
save-codes) # what a later talker learns from, in such files, too
    tar -C "$WORK" -cf - codes | xz -T0 | split -b 15000000 - "${OUT:?}/codes.tar.xz."
    ls -l "$OUT"
    ;;
restore) # from such files in carried/
    cat ../carried/model.tar.* | tar -C "$WORK" -xf -
    if ls ../carried/codes.tar.xz.* > /dev/null 2>&1; then cat ../carried/codes.tar.xz.* | tar -C "$WORK" -xJf -; fi
    ;;
resume) # from the voice in the package and the discriminators in checkpoint/
    $PYTHON pack.py --back "${VOICE:-../src/rhapsode/nano}" "$MODEL"
    cp checkpoint/training.safetensors "$MODEL/speech_tokenizer"
    ;;
sample-shards) # a few of the teacher's, for the gate
    cp $(ls "$SHARDS"/*.npz | head -n 2) "${OUT:?}"
    ;;
*)
    echo "unknown step: $step" >&2
    exit 2
    ;;
esac
