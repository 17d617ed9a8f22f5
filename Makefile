# The front door of the lab. `make` alone prints the help, which is made from the `##` comments below.
SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Choices, each `make TARGET NAME=value` or an environment variable:
LAB ?= default
SLURM ?= 24.11
PROJECT ?= slurm-ray-lab
DASHBOARD_PORT ?=
export LAB SLURM PROJECT DASHBOARD_PORT ENGINE BASE BASE_IMAGE DEBIAN_MIRROR PYPI_INDEX CA_CERTS TORCH TORCH_INDEX
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# Signals wait until a command can heed them: a Python that only just starts would answer with a traceback.
WAIT := env --block-signal=INT,TERM,HUP
HELD := $(shell $(WAIT) true 2>/dev/null && echo $(WAIT))
PROVISION := $(HELD) $(PY) -m provisioning
SMOKE := $(HELD) $(PY) -m smoke
# Unit tests load no plugins they do not need: they start twice as fast.
UNIT := PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(PY) -m pytest

##@ The lab
.PHONY: up
up: $(READY) ## bring the lab up (LAB=, SLURM=, PROJECT=, DASHBOARD_PORT=)
	@$(PROVISION) up

.PHONY: smoke
smoke: $(READY) ## run the main job end to end, as alice through the login node
	@$(SMOKE)

.PHONY: status
status: $(READY) ## one screen: nodes and GPUs, jobs, Ray nodes, addresses
	@$(PROVISION) status

.PHONY: doctor
doctor: $(READY) ## find what is wrong and say what to do
	@$(PROVISION) doctor

.PHONY: audit
audit: $(READY) ## GPUs held twice, used without a grant, or hidden (JSON=1)
	@$(SMOKE) audit $(if $(JSON),--json)

.PHONY: down
down: $(READY) ## remove the containers; queue, accounting and homes are kept
	@$(PROVISION) down

.PHONY: destroy
destroy: $(READY) ## remove the lab with all its state
	@$(PROVISION) destroy

##@ Access
.PHONY: shell
shell: $(READY) ## a shell on the login node (AS=alice, NODE=login)
	@$(PROVISION) shell --user $(or $(AS),alice) --node $(or $(NODE),login)

# LINES of the environment is the height of somebody's terminal.
LOG_LINES := $(if $(filter command,$(origin LINES)),$(LINES),$(if $(SINCE),all,60))
.PHONY: logs
logs: $(READY) ## the last lines of the logs (NODE=c1, SINCE=10m, LINES=60)
	@$(PROVISION) logs --node "$(NODE)" --since "$(SINCE)" --lines "$(LOG_LINES)"

.PHONY: dashboard
dashboard: $(READY) ## the address of Ray's dashboard; opens it on a desktop
	@$(PROVISION) dashboard

.PHONY: token
token: $(READY) ## print Ray's token
	@$(PROVISION) token

##@ Configuration
.PHONY: check
check: $(READY) ## check the lab's YAML, touch nothing (LAB=)
	@$(PROVISION) check

.PHONY: new
new: $(READY) ## a commented copy of a lab, to edit (LAB=mine, FROM=default)
	@$(PROVISION) new --from $(or $(FROM),default)

.PHONY: plan
plan: $(READY) ## how the running lab differs from its YAML (JSON=1)
	@$(PROVISION) plan $(if $(JSON),--json)

.PHONY: apply
apply: $(READY) ## make the running lab what its YAML says (FORCE=1 ends jobs)
	@$(PROVISION) apply $(if $(FORCE),--force)

.PHONY: ray-scale
ray-scale: $(READY) ## another number of Ray workers, until make apply (N=4)
	@$(PROVISION) ray-scale --count "$(N)"

.PHONY: schema
schema: $(READY) ## print the JSON Schema of a lab's YAML
	@$(PROVISION) schema

##@ Phenomena
.PHONY: scenario
scenario: $(READY) ## one phenomenon, measured beside predicted (NAME=, SCALE=)
	@$(SMOKE) scenario $(NAME) $(if $(SCALE),--scale $(SCALE)) $(if $(JSON),--json)

.PHONY: scenarios
scenarios: $(READY) ## all of them, or with QUICK=1 the short ones for CI (SCALE=)
	@$(SMOKE) scenario $(if $(QUICK),quick,all) $(if $(SCALE),--scale $(SCALE)) $(if $(JSON),--json)

.PHONY: replay
replay: $(READY) ## a YAML file or a trace of jobs, compressed (FILE=, SCALE=)
	@$(SMOKE) replay $(or $(FILE),smoke/workloads/hundred.yaml) $(if $(SCALE),--scale $(SCALE)) --out $(or $(OUT),replay.html) \
		$(if $(JSON),--json)

.PHONY: drill
drill: $(READY) ## a fault to find and mend (NAME=, DO=hint, check or mend)
	@$(SMOKE) drill $(NAME) $(if $(DO),--do $(DO))

.PHONY: report
report: $(READY) ## the last result of each scenario as one page (OUT=)
	@$(SMOKE) report --out $(or $(OUT),report.html)

.PHONY: timeline
timeline: $(READY) ## who held which GPU lately, as one page (HOURS=, OUT=)
	@$(SMOKE) timeline --hours $(or $(HOURS),1) --out $(or $(OUT),timeline.html)

.PHONY: chaos
chaos: $(READY) ## faults at random under load, and losses (MINUTES=, SEED=)
	@$(SMOKE) chaos --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1) $(if $(JSON),--json)

##@ Tests
.PHONY: test
test: lint test-unit test-properties test-24.11 test-26.05 ## all but the long ones, both Slurm lines

.PHONY: lint
lint: $(READY) ## ruff, mypy, shellcheck, hadolint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/shellcheck $$(git ls-files '*.sh' '*.slurm' 'images/**/lab/*' | xargs grep -lE '^#!.*(ba)?sh')
	$(VENV)/bin/hadolint images/*/Dockerfile

.PHONY: test-unit
test-unit: $(READY) ## unit tests, no containers, a few seconds
	$(UNIT) tests/unit -q

.PHONY: test-properties
test-properties: $(READY) ## property tests, fuzzing, payloads, no containers
	$(UNIT) -p _hypothesis_pytestplugin tests/properties tests/payloads -q

# One after the other on one lab: some tests change its configuration for a moment.
ON_A_LAB := $(PY) -m pytest tests/cluster tests/scenarios
.PHONY: test-24.11 test-26.05
test-24.11: $(READY) ## tests on a running lab with Slurm 24.11
	SLURM=24.11 $(ON_A_LAB) -m "not slow"
test-26.05: $(READY) ## tests on a running lab with Slurm 26.05
	SLURM=26.05 $(ON_A_LAB) -m "not slow"

.PHONY: test-slow
test-slow: $(READY) ## the long ones: every scenario, faults (SLURM=)
	$(ON_A_LAB) -m slow

##@ Figures
.PHONY: bench-up
bench-up: $(READY) ## seconds and memory of starting the lab, beside Ray alone
	@$(PY) -m tests.bench_up

.PHONY: bench-ray
bench-ray: $(READY) ## rates of the lab's Ray beside this host's; start inside a job
	@$(PY) -m tests.bench_ray

##@ Upkeep
.PHONY: images
images: $(READY) ## build what is missing (FRESH=1: all, with the newest packages)
	@$(PROVISION) images $(if $(FRESH),--fresh)

.PHONY: scan
scan: $(READY) ## known holes in the images: Debian and Python packages
	@$(PROVISION) scan

.PHONY: rotate-secrets
rotate-secrets: $(READY) ## new Slurm key, password, Ray token (FORCE=1 ends jobs)
	@$(PROVISION) rotate-secrets $(if $(FORCE),--force)

.PHONY: bundle
bundle: $(READY) ## an archive for whoever helps you, without secrets (OUT=)
	@$(PROVISION) bundle --out "$(OUT)"

.PHONY: engine-stop
engine-stop: $(READY) ## stop the container engine, if the lab started it
	@$(PROVISION) engine-stop

.PHONY: lock
lock: $(READY) ## renew requirements.txt from requirements.in
	$(PY) -m pip install --quiet uv
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links \
		--no-header --no-annotate -o requirements.txt requirements.in

.PHONY: help
help: ## this text
	@awk 'BEGIN {FS = ":.*## "; print "usage: make TARGET [NAME=value]"} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-zA-Z0-9._ -]+:.*## / {sub(/:.*## /, "\001"); split($$0, part, "\001"); \
		  sub(/:.*/, "", part[1]); printf "  %-16s %s\n", part[1], part[2]}' $(MAKEFILE_LIST)

$(READY): requirements.txt
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			&& echo "installing python3-venv" && apt-get update -qq && apt-get install -y -qq python3 python3-venv >/dev/null; } \
		|| { echo "error: Python 3.11 or later with venv is needed" >&2; \
			echo "  next: on Debian or Ubuntu: apt install python3 python3-venv" >&2; exit 1; }
	@echo "making the Python environment in $(VENV) (once)"
	@python3 -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check $(if $(PYPI_INDEX),--index-url $(PYPI_INDEX)) \
		$(if $(CA_CERTS),--cert $(CA_CERTS)) -r requirements.txt
	@touch $@
