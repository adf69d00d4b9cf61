"""How is a reward hacked on photographs? `python -m studies.audit --set development`."""

from editcritic.benchmarks.common.terminal import limit_library_threads

limit_library_threads()

from .photograph_audit import main  # noqa: E402  (numpy reads the limit when it is imported)

if __name__ == "__main__":
    main()
