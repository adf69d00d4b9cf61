"""How many words of each script a reader reads: `python -m studies.scripts_read`.

Each word is drawn on a sign on its own, in DejaVu Sans, which comes with matplotlib and has no Chinese, Japanese and
Korean letters: give a font for these, such as that of the package manimgx-fonts-cjk. Arabic letters are joined only
where Pillow has Raqm.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Expert, Image
from editcritic.reward.config import load_experts
from editcritic.reward.metrics.edival.inspector import normalize_text
from editcritic.reward.queries import Abstention, ReadText, RecognizedText
from editcritic.reward.queries.answers import Outcome

WORDS: Mapping[str, str] = {
    "Latin: English": "window garden morning school bridge coffee market yellow discount TEN OPEN Perfect",
    "Latin: French, German, Polish, Turkish": "fenêtre école garçon größe Straße schön źródło łódź gęś çiçek ağaç "
    "İZMİR",
    "Latin: Vietnamese": "phở đường nguyễn việt tiếng thủy chợ buổi trường sữa vàng mười",
    "Greek": "παράθυρο κήπος πρωί σχολείο γέφυρα αγορά νερό φως ΨΩΜΙ ΠΟΛΗ ΕΚΠΤΩΣΗ θάλασσα",
    "Cyrillic": "окно сад утро школа мост кофе рынок жёлтый скидка ДЕСЯТЬ ОТКРЫТО идеально",
    "Armenian": "պատուհան այգի առավոտ դպրոց կամուրջ շուկա զեղչ տասը բաց գերազանց ջուր դեղին",
    "Georgian": "ფანჯარა ბაღი დილა სკოლა ხიდი ბაზარი ყავა წყალი ათი ღია ყვითელი ფასდაკლება",
    "Arabic": "نافذة حديقة صباح مدرسة جسر سوق قهوة ماء خصم عشرة مفتوح ممتاز",
    "Arabic: Persian": "پنجره باغ چراغ گربه کتاب ژاله قهوه تخفیف بازار زرد مدرسه پل",
    "Hebrew": "חלון גינה בוקר גשר שוק צהוב קפה מים מבצע עשר פתוח מושלם",
    "Han: Chinese": "窗户 花园 早上 学校 大桥 咖啡 市场 黄色 折扣 十分 营业中 完美",
    "Kana: Japanese": "まど にわ あさ がっこう はし コーヒー いちば きいろ セール じゅう オープン パーフェクト",
    "Hangul: Korean": "창문 정원 아침 학교 다리 커피 시장 노랑 할인 열 영업중 완벽한",
}
_SIZE, _PADDING = 40, 40  # of letters and around them, in pixels


def sign(word: str, font: PIL.ImageFont.FreeTypeFont) -> Image:
    """A word, dark on light."""
    left, top, right, bottom = (round(side) for side in font.getbbox(word))
    picture = PIL.Image.new("RGB", (right - left + 2 * _PADDING, bottom - top + 2 * _PADDING), (240, 235, 215))
    PIL.ImageDraw.Draw(picture).text((_PADDING - left, _PADDING - top), word, fill=(20, 20, 30), font=font)
    return Image.of(np.asarray(picture))


def read_rows(reader: Expert, fonts: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Script -> what a reader says of its words, each drawn in the first font that has its letters."""
    for script, words in WORDS.items():
        shown = [(word, path) for word in words.split() if (path := _font_of(word, fonts))]
        if not shown:
            yield script, "no font"
            continue
        pictures = [sign(word, PIL.ImageFont.truetype(path, _SIZE)) for word, path in shown]
        rewritten = [
            reader.rewrite_query(ReadText(picture, word), None)
            for picture, (word, _) in zip(pictures, shown, strict=True)
        ]
        answers = list(reader([ReadText(picture) for picture in pictures]))
        read = sum(_is_read(answer, word) for answer, (word, _) in zip(answers, shown, strict=True))
        abstains = sum(isinstance(query, Abstention) for query in rewritten)
        yield script, f"{read} of {len(shown)}" + (f", abstains on {abstains}" if abstains else "")


def _is_read(answer: Outcome, word: str) -> bool:
    return isinstance(answer, RecognizedText) and normalize_text(answer.text) == normalize_text(word)


def _font_of(word: str, fonts: Sequence[Path]) -> Path | None:
    ttlib = bench_library("fontTools.ttLib")
    for path in fonts:
        known = ttlib.TTFont(path, fontNumber=0, lazy=True).getBestCmap()
        if all(ord(letter) in known for letter in word):
            return path
    return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table: a row a script, a column a reader."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reader", nargs="+", default=["rapidocr"], help="as in experts; default: rapidocr")
    parser.add_argument("--font", nargs="+", type=Path, default=[], help="fonts besides DejaVu Sans")
    options = parser.parse_args(arguments)
    fonts = [Path(bench_library("matplotlib").get_data_path(), "fonts/ttf/DejaVuSans.ttf"), *options.font]
    columns = [dict(read_rows(load_experts({"reader": reader})["reader"], fonts)) for reader in options.reader]
    echo(f"| script | {' | '.join(options.reader)} |", stderr=False)
    echo("|---|" + "---|" * len(columns), stderr=False)
    for script in WORDS:
        echo(f"| {script} | {' | '.join(column[script] for column in columns)} |", stderr=False)


if __name__ == "__main__":
    main()
