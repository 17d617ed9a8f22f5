#!/bin/bash
# stamps.sh FOLDER SECONDS [STATUS]: a job that says twice a second which GPUs it has, and ends with STATUS.
# Each run on each node writes a file of its own: NAME.JOB.NODE.START.PID, a line "SECOND GPUS" for each time, and
# "end" when it came to its end. No process is started for it.
exec > "$1/$SLURM_JOB_NAME.$SLURM_JOB_ID.$(hostname).$EPOCHREALTIME.$$" 4<> <(:)
end=$((SECONDS + $2))
while
    echo "$EPOCHREALTIME ${CUDA_VISIBLE_DEVICES:-}"
    [ "$SECONDS" -lt "$end" ]
do
    read -r -t 0.5 <&4
done
echo end
exit "${3:-0}"
