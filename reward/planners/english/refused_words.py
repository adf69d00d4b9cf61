"""Words of what is no request to edit a picture: orders to somebody else, errands, other languages."""

from __future__ import annotations

from .lexicon import word_set

ORDERS = word_set(
    "instruction instructions prompt prompts score scores rating ratings reward rewards judge judges evaluator "
    "assistant chatbot verdict system ignore disregard forget override planner plan plans answer answers "
    "question questions reply respond output token tokens admin administrator developer jailbreak policy "
    "policies grade grades json yaml xml html sql python javascript script code function variable api url http "
    "https database server password passwords account login user username pretend evaluate evaluation benchmark "
    "metric points"
)
"""Words of orders to a planner, judge or program."""
ERRANDS = word_set(
    "trash garbage rubbish recycling meeting meetings appointment appointments alarm reminder email emails mail "
    "calendar schedule flight flights deadline list playlist spreadsheet file files folder folders document "
    "documents essay poem article story summary paragraph report recipe dough batter oven tablespoon teaspoon "
    "tbsp tsp flour minutes hours tomorrow tonight yesterday monday tuesday wednesday thursday friday saturday "
    "sunday weekly daily homework groceries laundry dishes bill bills rent battery batteries filter's settings "
    "volume channel topic subject mind opinion wifi router contact contacts cart order subscription invoice "
    "comment comments hashtag tweet instances occurrences "
    "budget salary job team's diet mistake mistakes temperature medicine appendix vocabulary grammar sentence "
    "sentences"
)
"""Words of errands that are said with the verbs of editing."""
FOREIGN = word_set(
    "le la les des du une un el los las del al una uno der die das dem des ein eine einen einem und et y e il "
    "lo gli di da do dos na no's em um uma para por con sin avec dans sur pour par aux mit auf aus bei zu zum "
    "zur im ist sind nicht het een op voor met och att ett en det som med till og af til jeg je tu il nous vous "
    "sie wir ich du mi su sus tus mon ma mes ton ta tes son sa ses leur mein meine dein deine seine ihre della "
    "delle nel nella degli dei ao aos nas nos pela pelo foto imagen imagem bild immagine fondo fond hintergrund "
    "sfondo rojo rouge rot rosso azul bleu blau verde vert schwarz noir negro nero blanco blanc weiss bianco "
    "zdjęciu obrazu gambar latar warna yang dan dari ke menjadi perro chat gato chien hund gatto hat't"
) - word_set("die do no's chat son ton hat't e y en no fond mon sur son ma me ha sin con per bei")
"""Function words of other languages, without those that are English words as well."""
