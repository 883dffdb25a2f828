# make demo       all steps, from the corpus to a REST answer      CORPUS=path  MINUTES=10  RECIPE=name
# make test       the tests for every change                       CORPUS=path adds tests on the real corpus
# make test-unit  the quick tests: no training, export, server or browser
# make test-all   every test: also long trainings, TensorFlow 2.20, and Apache Beam in a separate environment
# make lint       formatter, linter, type checker, wording, schemas of the container, Kubernetes and workflow files
# make serve      the embedded server over saved_models           PORT=8501; it contains a Spanish-English model
# make docs       the documentation, in site/; a warning is an error
# make translator the committed model as an HTML file, site/translator.html, which the published documentation contains
# make notebooks  executes the notebooks that hold outputs         CORPUS=spa-eng.zip if there is no network
# make dist       wheel and source archive, in dist/
# make lock       requirements.txt, requirements/, from pyproject.toml   UPGRADE=1 takes the newest versions
# make address    replaces the address of the repository in all files   URL=https://github.com/OWNER/NAME
# make audit      known vulnerabilities of the locked packages, from PyPI
# make conformance   the checks of serve/conformance against a server   URL=http://127.0.0.1:8501  MODEL=spa-eng
# make conformance-container   the same against TensorFlow Serving's image; needs Docker   REPORT=conformance-container.json
# Each target creates the virtual environment that it needs. It requires Python 3.11 to 3.13 and make.

PYTHON ?= python3
VENV ?= .venv
PORT ?= 8501
URL ?= http://127.0.0.1:8501
MODEL ?= spa-eng
RUN = $(VENV)/bin/python
INSTALL = -m pip install --quiet --disable-pip-version-check --no-deps
LOCKED = $(INSTALL) --require-hashes

.PHONY: demo test test-unit test-all test-tf220 test-beam lint docs translator dist notebooks serve conformance lock audit \
    conformance-container address
.DELETE_ON_ERROR:

$(VENV)/.installed: requirements.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v < (3, 14) else \
	    f"make: expected Python 3.11 to 3.13, $(PYTHON) is {v.major}.{v.minor}. Pass PYTHON=python3.12, for example.")'
	$(PYTHON) -m venv $(VENV)
	$(RUN) $(LOCKED) -r requirements.txt
	$(RUN) $(INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-test: requirements/test.txt $(VENV)/.installed
	$(RUN) $(LOCKED) -r requirements/test.txt
	@touch $@

$(VENV)/.installed-dev: requirements/dev.txt $(VENV)/.installed
	$(RUN) $(LOCKED) -r requirements/dev.txt
	@touch $@

demo: $(VENV)/.installed
	$(RUN) -m nmt_keras demo $(if $(CORPUS),--corpus "$(CORPUS)") $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RECIPE),--recipe $(RECIPE))

# Two workers, because TensorFlow traces on one core. Each test file runs in one worker. tests/conftest.py orders the files.
PYTEST = $(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: $(VENV)/.installed-test
	$(PYTEST)

test-unit: $(VENV)/.installed-test
	$(PYTEST) -m "not long and not browser and not nginx and not slow and not tf220 and not beam"

test-all: test-tf220 test-beam
	$(PYTEST) -m "not tf220 and not beam"

test-tf220: $(VENV)/.installed-test
	$(RUN) -m pytest -m tf220

# A separate environment, because Apache Beam brings forty packages that nothing else needs.
.venv-beam/.installed: requirements/beam.txt
	$(PYTHON) -m venv .venv-beam
	.venv-beam/bin/python $(LOCKED) -r requirements/beam.txt
	@touch $@

test-beam: .venv-beam/.installed
	.venv-beam/bin/python -m pytest tests/pipelines -n 2 -m beam

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) tests/prose.py
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.compose-spec serve/deploy/compose.yaml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms \
	    $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.citation-file-format --default-filetype yaml CITATION.cff
	$(VENV)/bin/kubernetes-validate --quiet --strict serve/deploy/kubernetes.yaml docs/guides/training-job.yaml

# A separate environment, because the documentation is built without running the package and needs no TensorFlow.
.venv-docs/.installed: requirements/docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python $(LOCKED) -r requirements/docs.txt
	@touch $@

docs: .venv-docs/.installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict

translator: $(VENV)/.installed
	mkdir -p site
	$(RUN) -m nmt_keras export saved_models/spa-eng/1 --to site/translator.html

dist: .venv-docs/.installed
	.venv-docs/bin/python -m build --no-isolation

notebooks: $(VENV)/.installed-test
	$(RUN) -m notebooks.execute $(if $(CORPUS),--corpus "$(CORPUS)")

# Locks every package with its version and hashes, for Python 3.11 to 3.13 on all platforms. A version changes only if pyproject.toml
# excludes it or UPGRADE is given. Apache Beam needs an older protobuf than TensorFlow alone, so its lock is solved separately.
COMPILE = UV_CUSTOM_COMPILE_COMMAND="make lock" $(RUN) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    $(if $(UPGRADE),--upgrade)

lock: $(VENV)/.installed-dev
	$(COMPILE) pyproject.toml --output-file requirements.txt
	$(COMPILE) pyproject.toml --extra gpu --constraints requirements.txt --output-file requirements/gpu.txt
	$(COMPILE) pyproject.toml --group test --group beam --output-file requirements/beam.txt
	$(COMPILE) --group test --constraints requirements.txt --output-file requirements/test.txt
	$(COMPILE) --group tf220 --output-file requirements/tf220.txt
	for group in dev docs; do \
	    $(COMPILE) --group $$group --constraints requirements.txt --constraints requirements/test.txt \
	        --output-file requirements/$$group.txt || exit; done

audit: $(VENV)/.installed-dev
	for file in requirements.txt requirements/*.txt; do $(RUN) -m pip_audit --require-hashes --disable-pip -r $$file || exit; done

address:
	$(PYTHON) docs/address.py "$(URL)"

serve: $(VENV)/.installed
	$(RUN) -m nmt_keras_serve.server --model-dir saved_models --port $(PORT)

conformance: $(VENV)/.installed
	$(RUN) -m nmt_keras_serve.conformance --url $(URL) --model $(MODEL)

# The image serves the committed model with metrics and CORS. The report has the date and the image's digest.
IMAGE = $(shell sed -n 's/^ *image: \(tensorflow\/serving:.*\)/\1/p' serve/deploy/compose.yaml)
IMAGE_URL = http://127.0.0.1:8511
REPORT = conformance-container.json

conformance-container: $(VENV)/.installed
	docker pull --quiet $(IMAGE)
	trap 'docker rm --force nmt-conformance' EXIT; \
	docker run --detach --name nmt-conformance --publish $(IMAGE_URL:http://%=%):8501 --env MODEL_NAME=spa-eng \
	    --volume "$(CURDIR)/saved_models/spa-eng:/models/spa-eng:ro" \
	    --volume "$(CURDIR)/serve/deploy/monitoring.config:/config/monitoring.config:ro" \
	    $(IMAGE) --monitoring_config_file=/config/monitoring.config --enable_cors_support && \
	{ timeout 120 sh -c 'until curl -fs $(IMAGE_URL)/v1/models/spa-eng/metadata; do sleep 1; done' >/dev/null || \
	    { docker logs nmt-conformance; exit 1; }; } && \
	$(RUN) -m nmt_keras_serve.conformance --url $(IMAGE_URL) --monitoring --cors --json $(REPORT) \
	    --server "$$(docker image inspect --format '{{index .RepoDigests 0}}' $(IMAGE))"
