# make demo       everything, from the corpus to a REST answer    CORPUS=path  MINUTES=10  RECIPE=name
# make test       all tests but the slow ones                     CORPUS=path adds those that need the real corpus
# make test-unit  the quick ones: nothing trained at length, exported, served, or opened in a browser
# make test-slow  the slow ones: models that must learn something
# make test-beam  the Apache Beam pipelines, in an environment of their own
# make lint       formatter, linter, type checker, wording, schemas of the container, Kubernetes and workflow files
# make serve      the embedded server over saved_models           PORT=8501; make demo exports a model there
# make docs       the documentation, in site/; a warning is an error
# make notebooks  executes the notebooks that hold outputs         CORPUS=spa-eng.zip without a network
# make dist       wheel and source archive, in dist/
# make lock       requirements*.txt, from pyproject.toml          UPGRADE=1 takes the newest versions
# make audit      known vulnerabilities of the locked packages, from PyPI
# make conformance   the checks of serve/conformance against a server   URL=http://127.0.0.1:8501  MODEL=spa-eng
# Each target creates the virtual environment that it needs. It requires Python 3.11 to 3.13 and make.

PYTHON ?= python3
VENV ?= .venv
PORT ?= 8501
URL ?= http://127.0.0.1:8501
MODEL ?= spa-eng
RUN = $(VENV)/bin/python
INSTALL = -m pip install --quiet --disable-pip-version-check --no-deps
LOCKED = $(INSTALL) --require-hashes

.PHONY: demo test test-unit test-slow test-tf220 test-beam lint docs dist notebooks serve conformance lock audit
.DELETE_ON_ERROR:

$(VENV)/.installed: requirements.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v < (3, 14) else \
	    f"make: expected Python 3.11 to 3.13, $(PYTHON) is {v.major}.{v.minor}. Pass PYTHON=python3.12, for example.")'
	$(PYTHON) -m venv $(VENV)
	$(RUN) $(LOCKED) -r requirements.txt
	$(RUN) $(INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-test: requirements-test.txt $(VENV)/.installed
	$(RUN) $(LOCKED) -r requirements-test.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	$(RUN) $(LOCKED) -r requirements-dev.txt
	@touch $@

demo: $(VENV)/.installed
	$(RUN) -m nmt_keras demo $(if $(CORPUS),--corpus "$(CORPUS)") $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RECIPE),--recipe $(RECIPE))

# Two workers, each with whole files: TensorFlow traces on one core. Files come in the order of tests/conftest.py.
test: $(VENV)/.installed-test
	$(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-unit: $(VENV)/.installed-test
	$(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder \
	    -m "not slow and not long and not tf220 and not beam and not saved_model and not server and not browser"

test-slow: $(VENV)/.installed-test
	$(RUN) -m pytest -n 2 -m slow

test-tf220: $(VENV)/.installed-test
	$(RUN) -m pytest -m tf220

# Beside TensorFlow, but in an environment of its own: Apache Beam brings forty packages that nothing else needs.
.venv-beam/.installed: requirements-beam.txt
	$(PYTHON) -m venv .venv-beam
	.venv-beam/bin/python $(LOCKED) -r requirements-beam.txt
	@touch $@

test-beam: .venv-beam/.installed
	.venv-beam/bin/python -m pytest -m beam

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) tests/prose.py
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.compose-spec serve/deploy/compose.yaml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/kubernetes-validate --quiet --strict serve/deploy/k8s/*.yaml docs/guides/training-job.yaml
	if command -v kubectl >/dev/null; then kubectl kustomize serve/deploy >$(VENV)/rendered.yaml && \
	    $(VENV)/bin/kubernetes-validate --quiet --strict $(VENV)/rendered.yaml; fi

# A separate environment: the documentation is built from the sources without running them, so TensorFlow is not needed.
.venv-docs/.installed: requirements-docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python $(LOCKED) -r requirements-docs.txt
	@touch $@

docs: .venv-docs/.installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict

dist: .venv-docs/.installed
	.venv-docs/bin/python -m build --no-isolation

notebooks: $(VENV)/.installed-test
	$(RUN) -m notebooks.execute $(if $(CORPUS),--corpus "$(CORPUS)")

# Every package with its version and hashes, for Python 3.11 to 3.13 on all platforms. Versions stay unless pyproject.toml excludes
# them or UPGRADE is given. Apache Beam wants an older protobuf than TensorFlow takes, so its lock is solved by itself.
COMPILE = UV_CUSTOM_COMPILE_COMMAND="make lock" $(RUN) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    $(if $(UPGRADE),--upgrade)

lock: $(VENV)/.installed-dev
	$(COMPILE) pyproject.toml --output-file requirements.txt
	$(COMPILE) pyproject.toml --extra gpu --constraints requirements.txt --output-file requirements-gpu.txt
	$(COMPILE) pyproject.toml --group test --group beam --output-file requirements-beam.txt
	$(COMPILE) --group test --constraints requirements.txt --output-file requirements-test.txt
	for group in dev docs; do \
	    $(COMPILE) --group $$group --constraints requirements.txt --constraints requirements-test.txt \
	        --output-file requirements-$$group.txt || exit; done

audit: $(VENV)/.installed-dev
	for file in requirements*.txt; do $(RUN) -m pip_audit --require-hashes --disable-pip -r $$file || exit; done

serve: $(VENV)/.installed
	$(RUN) -m serve.server --model-dir saved_models --port $(PORT)

conformance: $(VENV)/.installed
	$(RUN) -m serve.conformance --url $(URL) --model $(MODEL)
