# jobrun. `make help` lists the targets; variables to set: CC, CFLAGS, WERROR=1, V=1, PREFIX, DESTDIR, BUILD, T.
#
# Sources are found by wildcard: a new file in cmd/, cmd/sql/, lib/*/, migrations/ or test/unit/ needs no line here.
# All output goes to $(BUILD). A change of compiler or flags rebuilds the files it affects.

VERSION = 0.1.0

comma := ,
# Quote any text as one shell word.
quote = '$(subst ','\'',$(1))'

BUILD  ?= build
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/jobrun
# Where systemd looks for units and shells for completions. zsh looks in site-functions; below /usr, Debian's packages use
# vendor-completions. fish looks below /usr, and below /usr/local if XDG_DATA_DIRS names /usr/local/share.
SYSTEMDDIR ?= $(PREFIX)/lib/systemd/system
BASHCOMPDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHCOMPDIR ?= $(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX:/=)),vendor-completions,site-functions)
FISHCOMPDIR ?= $(PREFIX)/share/fish/vendor_completions.d

PKG_CONFIG ?= pkg-config
# libcurl is loaded when it is first needed (lib/handler/curl.h).
LINKED     := libpq libcrypto jansson smartcols
PACKAGES   := $(LINKED) libcurl

# Goals that compile nothing must work without the libraries.
ifneq ($(if $(MAKECMDGOALS),$(filter-out help clean lint format uninstall dist deb,$(MAKECMDGOALS)),all),)
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PACKAGES))
PKG_LIBS   := $(and $(shell $(PKG_CONFIG) --libs $(PACKAGES)),$(shell $(PKG_CONFIG) --libs $(LINKED)) -ldl)
ifeq ($(PKG_LIBS),)
$(error $(PKG_CONFIG) does not find all of: $(PACKAGES); on Debian: apt install pkg-config libpq-dev libcurl4-openssl-dev libssl-dev libjansson-dev libsmartcols-dev)
endif
endif

CFLAGS ?= -O2 -g

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wwrite-strings -Wpointer-arith -Wcast-qual -Wformat=2 -Wundef -Wvla -Walloca -Wconversion -Wno-sign-conversion \
	-Wdouble-promotion -Wswitch-enum -Wimplicit-fallthrough -Wnull-dereference
ifneq ($(findstring clang,$(shell $(CC) --version)),)
WARNINGS += -Wmissing-variable-declarations -Wcomma -Wunreachable-code -Wconditional-uninitialized
else
WARNINGS += -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wcast-align=strict -Warith-conversion
endif

# Flags that some compilers, or compilers for some processors, do not have.
ifneq ($(PKG_LIBS),)
HARDEN_FOUND := $(shell for flag in -fcf-protection -mbranch-protection=standard -ftrivial-auto-var-init=zero; do \
	echo 'extern int x;' | $(CC) $(CFLAGS) -Werror $$flag -x c -c -o /dev/null - 2>/dev/null && echo $$flag; done)
endif
HARDEN := -fstack-protector-strong -fstack-clash-protection $(HARDEN_FOUND)
ifdef SANITIZE
# A sanitizer brings its own checks of memory and confuses the flow analysis behind some warnings: never -Werror here.
HARDEN := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1
else
ifneq ($(filter -O1 -O2 -O3 -Os -Og,$(CFLAGS)),)
HARDEN += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif
ifeq ($(WERROR),1)
WARNINGS += -Werror
endif
endif

ALL_CPPFLAGS := -D_GNU_SOURCE -DJR_VERSION='"$(VERSION)"' -iquote lib -I$(BUILD)/gen $(PKG_CFLAGS) $(CPPFLAGS)
ALL_CFLAGS   := -std=c11 $(CFLAGS) -fPIE -fno-common $(WARNINGS) $(HARDEN)
ALL_LDFLAGS  := -pie -Wl,-z,relro,-z,now $(if $(SANITIZE),-fsanitize=address$(comma)undefined) $(LDFLAGS)
# V=1 shows whole commands.
ifneq ($(V),1)
Q := @
endif
say = $(if $(Q),@printf '  %-4s %s\n' $(1) $(2))
COMPILE       = $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP

LIB_OBJECTS  := $(patsubst lib/%.c,$(BUILD)/lib/%.o,$(sort $(wildcard lib/*/*.c))) $(BUILD)/gen/sql_text.o
CMD_OBJECTS  := $(patsubst cmd/%.c,$(BUILD)/cmd/%.o,$(sort $(wildcard cmd/*.c)))
UNIT_TESTS   := $(patsubst test/unit/%.c,$(BUILD)/unit/%,$(sort $(wildcard test/unit/t_*.c)))
SQL_FILES    := $(sort $(wildcard lib/sql/*.sql cmd/sql/*.sql cmd/sql/*.part migrations/*.sql migrations/functions/*.sql cmd/report/*.css)) migrations/MANIFEST
DOC_FILES    := crontab.example scripts/monitoring/jobrun.rules.yml scripts/monitoring/jobrun-dashboard.json
# An archive of make dist has the finished pages in cmd/man; without them scdoc makes them.
MAN_SOURCES  := $(sort $(wildcard cmd/man/*.scd))
MAN_MADE     := $(wildcard $(MAN_SOURCES:.scd=))
MAN_PAGES    := $(if $(MAN_MADE)$(shell command -v scdoc),$(patsubst cmd/man/%.scd,$(BUILD)/man/%,$(MAN_SOURCES)))
# jobrun-status(1) is the page of the group to which status belongs: COMMAND:PAGE. Not where section 7 has a page of that name.
MAN_ALIASES  := $(if $(MAN_PAGES),$(foreach page,$(wildcard cmd/man/jobrun-*.1.scd),$(foreach command, \
                $(sort $(shell sed -n 's/^\*jobrun \([a-z]*\)\*.*/\1/p' $(page))), \
                $(if $(or $(filter cmd/man/jobrun-$(command).1.scd,$(page)),$(wildcard cmd/man/jobrun-$(command).7.scd)),, \
                $(command):$(notdir $(page:.scd=))))))
EXAMPLES     := $(sort $(shell cd scripts/examples && find * -type f ! -name '*.pyc'))
UNITS        := $(notdir $(sort $(wildcard scripts/systemd/*)))
BENCH_PROGRAMS := $(patsubst scripts/bench/%.c,$(BUILD)/bench/%,$(sort $(wildcard scripts/bench/*.c)))
C_FILES      := $(sort $(wildcard cmd/*.[ch] lib/*/*.[ch] test/unit/*.[ch] scripts/bench/*.c))

# Tests mostly wait, so three run per CPU if GNU parallel is installed (bats needs it for -j). T=test/run/x.bats chooses
# files.
TOPICS    := cli enqueue run handlers schedule operate
T         ?= $(sort $(wildcard $(TOPICS:%=test/%/*.bats)))
BATS_JOBS := $(if $(shell parallel --version 2>/dev/null | grep -s GNU),-j $(shell expr 3 \* $$(nproc)))
BATS       = JOBRUN=$(abspath $(BUILD)/jobrun) POOLER=$(POOLER) bats $(BATS_JOBS) --setup-suite-file test/setup_suite.bash $(BATS_FLAGS)

.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: all check unit bats san servers chaos monitoring examples slots bench month curves bench-programs screens lint format install uninstall dist deb clean help FORCE

all: $(BUILD)/jobrun $(MAN_PAGES)   ## build/jobrun and its manual page (the default)

$(BUILD)/jobrun: $(CMD_OBJECTS) $(BUILD)/libjobrun.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -Wl,--export-dynamic-symbol=_gnutls_global_init_skip -o $@ $^ $(PKG_LIBS)

$(BUILD)/libjobrun.a: $(LIB_OBJECTS)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) rcs $@ $^

$(LIB_OBJECTS) $(CMD_OBJECTS): $(BUILD)/gen/sql_text.h $(BUILD)/flags

$(BUILD)/lib/%.o: lib/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c -o $@ $<

$(BUILD)/cmd/%.o: cmd/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c -o $@ $<

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c
	$(call say,CC,$<)
	$(Q)$(COMPILE) -Wno-overlength-strings -c -o $@ $<

$(BUILD)/unit/%: test/unit/%.c $(BUILD)/libjobrun.a $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) $(ALL_LDFLAGS) -o $@ $< $(BUILD)/libjobrun.a $(PKG_LIBS) -lcmocka

# One command writes header and source. The list of names changes when a .sql file is removed.
$(BUILD)/gen/sql_text.h: $(BUILD)/gen/sql_text.c ;
$(BUILD)/gen/sql_text.c: $(SQL_FILES) $(BUILD)/gen/names scripts/embed-sql
	scripts/embed-sql $(@D)

# Written only when they change.
$(BUILD)/gen/names: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(SQL_FILES) | cmp -s - $@ || printf '%s\n' $(SQL_FILES) > $@

$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(call quote,$(COMPILE) $(ALL_LDFLAGS)) $(call quote,$(PKG_LIBS)) | cmp -s - $@ || \
		printf '%s\n' $(call quote,$(COMPILE) $(ALL_LDFLAGS)) $(call quote,$(PKG_LIBS)) > $@

$(BUILD)/man/%: cmd/man/%.scd
	@mkdir -p $(@D)
	$(if $(MAN_MADE),cp $(<:.scd=) $@,scripts/man-page $< > $@)

check: unit bats   ## unit tests and the bats suite

unit: $(UNIT_TESTS)   ## unit tests (cmocka)
	scripts/unit $(UNIT_TESTS)

bats: all bench-programs   ## the bats suite; T=test/run/x.bats for some files, BATS_FLAGS='-f REGEX' for some tests, POOLER=1 through PgBouncer
	$(BATS) $(T)

san:   ## unit tests and the bats suite under ASan and UBSan, in build/san
	+$(MAKE) BUILD=build/san SANITIZE=1 check

servers:   ## the bats suite on PostgreSQL 12 to 18, fetched by npm if need be; SERVERS='12 18', T=FILE; prints those that fail
	scripts/servers --versions '$(or $(SERVERS),12 13 14 15 16 17 18)' $(T)

chaos: all   ## the long tests with kills and restarts, test/chaos; CHAOS_SECONDS=60, CHAOS_KILLS=1000, CHAOS_TICKS=10000, CHAOS_SEED=N
	BATS_TEST_TIMEOUT=$$(( $${CHAOS_SECONDS:-60} * 2 + $${CHAOS_KILLS:-1000} + $${CHAOS_TICKS:-10000} / 20 + 900 )) $(BATS) $(sort $(wildcard test/chaos/*.bats))

monitoring: all   ## metrics, alerts and dashboard with promtool, node_exporter and a Prometheus, test/monitoring; installs them
	scripts/install-packages build server test monitoring
	BATS_TEST_TIMEOUT=600 $(BATS) $(sort $(wildcard test/monitoring/*.bats))

examples: all   ## scripts/examples in every language, compiled ones too; installs them
	scripts/install-packages build server test examples compilers
	NODE_PATH=/usr/share/nodejs node -e 'require("pg")' 2>/dev/null || npm install --silent --no-fund --prefix $(BUILD)/examples pg
	NODE_PATH=/usr/share/nodejs:$(abspath $(BUILD))/examples/node_modules EXAMPLES_ALL=1 BATS_TEST_TIMEOUT=600 $(BATS) test/cli/examples.bats

slots: all   ## the schedule engine against a slow reference; SLOTS_POINTS=10000000, SLOTS_SEED=N
	@SLOTS_POINTS=$${SLOTS_POINTS:-10000000} SLOTS_SECONDS=86400 SLOTS_SEED=$${SLOTS_SEED:-$$(date +%s)} BATS_TEST_TIMEOUT=86400 \
		$(BATS) -f 'slow reference' test/schedule/engine.bats

bench: all bench-programs   ## jobrun beside its floors and peers, 15 to 30 minutes; into build/bench; BENCH_FLAGS='--only exec,sql'
	JOBRUN=$(abspath $(BUILD)/jobrun) scripts/bench/run $(BENCH_FLAGS)

month: all   ## a month of 10 million runs in 20 minutes: do the tables stay as they are? into build/bench; MONTH_FLAGS='--minutes 10'
	JOBRUN=$(abspath $(BUILD)/jobrun) scripts/bench/month $(MONTH_FLAGS)

curves: all bench-programs   ## runs a second against runners, history and archive; leases; housekeeping; into build/bench; CURVES_FLAGS=--quick
	JOBRUN=$(abspath $(BUILD)/jobrun) scripts/bench/curves $(CURVES_FLAGS)

# Each links only what it uses, as a program of its own would.
BENCH_LDFLAGS = $(ALL_LDFLAGS) -Wl,--as-needed
BENCH_LIBS    = $(PKG_LIBS) $(shell $(PKG_CONFIG) --libs libcurl)
# begun reads the clock in main(), so the time of a dynamic loader would be measured, too. Sanitizers cannot be linked statically.
$(BUILD)/bench/begun: BENCH_LDFLAGS = $(if $(findstring -fsanitize,$(ALL_CFLAGS) $(ALL_LDFLAGS)),$(ALL_LDFLAGS),-static-pie $(LDFLAGS))
$(BUILD)/bench/begun: BENCH_LIBS =
bench-programs: $(BENCH_PROGRAMS)

$(BUILD)/bench/%: scripts/bench/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) $(BENCH_LDFLAGS) -o $@ $< $(BENCH_LIBS)

screens: all   ## pictures of the page of jobrun report in a browser, to be looked at; into build/screens
	JOBRUN=$(abspath $(BUILD)/jobrun) scripts/screens

lint:   ## format, clang-tidy, cppcheck, shellcheck
	scripts/lint

format:   ## put all C files into the one format
	clang-format -i $(C_FILES)

install: all   ## to $(DESTDIR)$(PREFIX): program, manual, completions, examples, alert rules, dashboard, units of systemd
	install -D -m 755 $(BUILD)/jobrun $(DESTDIR)$(BINDIR)/jobrun
	$(foreach page,$(MAN_PAGES),install -D -m 644 $(page) $(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)) &&) true
	for alias in $(MAN_ALIASES); do echo ".so man1/$${alias#*:}" | \
		install -D -m 644 /dev/stdin $(DESTDIR)$(MANDIR)/man1/jobrun-$${alias%:*}.1 || exit; done
	$(foreach file,$(DOC_FILES),install -D -m 644 $(file) $(DESTDIR)$(DOCDIR)/$(notdir $(file)) &&) true
	sed -i 's|/usr/local/bin/jobrun|$(BINDIR)/jobrun|g' $(DESTDIR)$(DOCDIR)/crontab.example \
		$(foreach page,$(MAN_PAGES),$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
	@for file in $(EXAMPLES); do mode=644; [ ! -x scripts/examples/$$file ] || mode=755; \
		install -D -m $$mode scripts/examples/$$file $(DESTDIR)$(DOCDIR)/examples/$$file || exit; done
	$(foreach unit,$(UNITS),install -D -m 644 scripts/systemd/$(unit) $(DESTDIR)$(SYSTEMDDIR)/$(unit) && \
		sed -i 's|^ExecStart=/usr/bin/|ExecStart=$(BINDIR)/|' $(DESTDIR)$(SYSTEMDDIR)/$(unit) &&) true
	@if $(BUILD)/jobrun completion bash >/dev/null 2>&1; then \
		$(BUILD)/jobrun completion bash | install -D -m 644 /dev/stdin $(DESTDIR)$(BASHCOMPDIR)/jobrun && \
		$(BUILD)/jobrun completion zsh | install -D -m 644 /dev/stdin $(DESTDIR)$(ZSHCOMPDIR)/_jobrun && \
		$(BUILD)/jobrun completion fish | install -D -m 644 /dev/stdin $(DESTDIR)$(FISHCOMPDIR)/jobrun.fish; \
	else echo 'left out: completions (this machine cannot run $(BUILD)/jobrun)'; fi
	$(if $(MAN_PAGES),,@echo 'left out: manual pages (no scdoc here; an archive of make dist has them)')

uninstall:   ## what install put there
	rm -f $(DESTDIR)$(BINDIR)/jobrun $(EXAMPLES:%=$(DESTDIR)$(DOCDIR)/examples/%) $(patsubst %,$(DESTDIR)$(DOCDIR)/%,$(notdir $(DOC_FILES)))
	rm -f $(foreach page,$(MAN_SOURCES:.scd=),$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
	rm -f $(foreach alias,$(MAN_ALIASES),$(DESTDIR)$(MANDIR)/man1/jobrun-$(firstword $(subst :, ,$(alias))).1)
	rm -f $(UNITS:%=$(DESTDIR)$(SYSTEMDDIR)/%) $(DESTDIR)$(BASHCOMPDIR)/jobrun $(DESTDIR)$(ZSHCOMPDIR)/_jobrun $(DESTDIR)$(FISHCOMPDIR)/jobrun.fish
	[ ! -d $(DESTDIR)$(DOCDIR) ] || find $(DESTDIR)$(DOCDIR) -depth -type d -empty -delete

dist:   ## build/jobrun-VERSION.tar.gz of the last commit, with manual pages; the same bytes each time
	scripts/dist $(VERSION) $(BUILD)

deb: dist   ## a Debian package in build/deb; needs debhelper
	scripts/deb $(VERSION) $(BUILD)

clean:   ## remove build/
	rm -rf build

help:   ## this list
	@sed -n 's/^\([a-z]*\):.*   ## \(.*\)/\1\t\2/p' Makefile | awk -F'\t' '{ printf "%-10s %s\n", $$1, $$2 }'

-include $(wildcard $(BUILD)/*/*.d $(BUILD)/lib/*/*.d)
