#!/bin/bash
# Runs a program on the machines of a Slurm job with Dask: sbatch slurm-dask.sh program.py [arguments]
#SBATCH --job-name=craton-dask
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=01:00:00
set -euo pipefail

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))
cores=${SLURM_CPUS_PER_TASK:-$(nproc)}
scratch=${TMPDIR:-/tmp}

# This script runs on the first machine. The processes that it starts end with the job.
dask scheduler --port "$port" --no-dashboard &
started=$!
srun --overlap --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" \
    dask worker "tcp://$head:$port" --nthreads "$cores" --no-dashboard --local-directory "$scratch" &
started="$started $!"
# shellcheck disable=SC2064,SC2086
trap "kill $started 2> /dev/null || true; wait" EXIT

python - "tcp://$head:$port" "$SLURM_NNODES" "$@" << 'PROGRAM'
import os
import runpy
import sys

import craton

address, workers, *sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
with craton.init("dask", address=address, workers=int(workers), timeout=300):
    runpy.run_path(sys.argv[0], run_name="__main__")
PROGRAM
