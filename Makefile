# Generated files are committed; these targets rebuild them.

.PHONY: asm

asm:
	cd internal/cpu/tile/_asm && go generate ./...
