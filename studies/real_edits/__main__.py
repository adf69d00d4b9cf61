"""Does a reward agree with people on real edits, and what does it pay for destroyed places?

python -m studies.real_edits fills --folder FOLDER --out out/fills
"""

from __future__ import annotations

from .command import main

if __name__ == "__main__":
    main()
