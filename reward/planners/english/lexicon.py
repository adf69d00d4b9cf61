"""Words of the grammar by class. Nouns are open: those are listed whose meaning decides what a sentence asks for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from ...edit_plan import Place, RelationKind
from ...metrics.any_edit.instruction_words import SCENE_WORDS, word_set

_Class = TypeVar("_Class")
PERSON_PRONOUNS: Mapping[str, str] = MappingProxyType(
    {"him": "person", "he": "person", "she": "person", "her": "person", "his": "person", "their": "people"}
)
"""Pronoun -> a noun for a detector; "it" and "them" may be anything."""
_COUNTED = "one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve"
SIDE_RELATIONS: Mapping[Place, RelationKind] = MappingProxyType(
    {"left": "left", "right": "right", "top": "on", "bottom": "below", "center": "in", "foreground": "in_front"}
)
"""Side of an object -> how something there lies to it."""
ADJECTIVE_ENDINGS = ("ous", "ful", "less", "ish", "ic", "like", "-shaped", "-style", "-colored", "-sleeve", "-themed")
"""Endings of adjectives that are not listed, where no noun is expected."""


def phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """The phrases between the commas of a text, each as its words."""
    return tuple(tuple(phrase.split()) for phrase in text.split(","))


def by_word(classes: Mapping[_Class, str]) -> Mapping[str, _Class]:
    """Word -> its class. classes: the words of each."""
    return MappingProxyType({word: name for name, words in classes.items() for word in words.split()})


# -- closed classes ----------------------------------------------------------------------------------------------------

ARTICLES = word_set("a an the")
DETERMINERS = ARTICLES | word_set("my this that these those its his her their some any another")
POSSESSIVES = word_set("his her their its")
NUMBERS: Mapping[str, int] = MappingProxyType({word: number for number, (word,) in enumerate(phrases(_COUNTED), 1)})
ORDINALS: Mapping[str, int] = MappingProxyType(
    {word: number for number, (word,) in enumerate(phrases("first, second, third, fourth, fifth, sixth"), 1)}
)
QUANTIFIERS = word_set("all every each both")
VAGUE_QUANTITIES = word_set(
    "hundred hundreds thousand dozen dozens several many few multiple various numerous more extra additional"
)
LARGER_OF, SMALLER_OF = word_set("largest biggest larger bigger"), word_set("smallest tiniest smaller tinier")
"""Before a noun: which of several is meant."""
PREPOSITIONS: Mapping[str, RelationKind] = by_word(
    {
        "on": "on onto upon atop",
        "above": "above over",
        "below": "below under beneath underneath",
        "in": "in inside within into",
        "beside": "beside near by along around alongside at against",
        "behind": "behind",
        "with": "with without",
        "part": "of",
    }
)
OTHER_PREPOSITIONS = word_set(
    "from to for between among across through toward towards about like as off out up down past than via during "
    "after before until since throughout amid outside including featuring showing"
)
"""They have no kind of relation."""
CONJUNCTIONS = word_set(
    "and or but while so then because if when where whereas although though that which who whose nor"
)
AUXILIARIES = word_set(
    "is are was were be been being am do does did has have had having will would shall should can could may "
    "might must not no never become becomes became isn't aren't don't doesn't didn't won't"
)
FIRST_AND_SECOND_PERSON = word_set(
    "i me my mine myself you your yours yourself yourselves we us our ours i'm i'd i'll i've you're we're let's"
)
STOPS = (
    CONJUNCTIONS
    | QUANTIFIERS
    | AUXILIARIES
    | FIRST_AND_SECOND_PERSON
    | OTHER_PREPOSITIONS
    | PREPOSITIONS.keys()
    | (DETERMINERS - {"some", "any", "another"})
    | word_set("it they them he she him there here next instead")
)
"""Words that end a noun phrase."""

# -- places in the picture ---------------------------------------------------------------------------------------------

SCENES = SCENE_WORDS - {"frame"}
"""The whole picture. "frame" is an object, but for "in the frame"."""
SIDES: Mapping[str, Place] = by_word(
    {
        "left": "left left-hand left-side leftmost",
        "right": "right right-hand right-side rightmost",
        "top": "top upper topmost uppermost",
        "bottom": "bottom lower",
        "center": "center centre middle",
        "foreground": "foreground",
        "background": "background",
    }
)
SIDE_NOUNS = word_set("side half part corner edge area portion section third hand end region")
BACKGROUND_NOUNS = word_set("background backdrop setting environment surroundings scenery backgrounds surrounding")
SCENERY = BACKGROUND_NOUNS | word_set(
    "forest beach desert field meadow jungle garden landscape cityscape skyline city street mountain mountains "
    "hills cliffs ocean sea lake river park countryside greenery foliage grassland tundra sky rainforest woods "
    "trees lawn grass ground area site scene hillside valley road backyard vegetation terrain"
)
"""What a background may be."""
SCENE_HEADS = word_set(
    "setting environment landscape scene background backdrop cityscape scenery atmosphere surroundings"
)
"""Heads of a value that is a whole background."""

# -- adjectives --------------------------------------------------------------------------------------------------------

COLORS = word_set(
    "red orange yellow green blue purple violet pink brown black white gray grey beige turquoise teal cyan "
    "magenta maroon crimson scarlet burgundy lavender lilac indigo navy olive gold golden silver tan cream "
    "ivory peach coral mint amber emerald blonde blond khaki mauve rainbow multicolored multicoloured colorful "
    "colourful charcoal rose aqua fuchsia azure sapphire ruby bronze copper platinum rust mustard"
)
OBJECT_COLORS = word_set(
    "orange peach rose olive mint coral ruby emerald sapphire lavender lilac cherry chocolate cream gold silver "
    "violet rainbow amber rust copper bronze charcoal mustard ivory turquoise"
)
"""Names of colours that are objects, too: "a peach"."""
COLOR_MODIFIERS = word_set(
    "light lighter dark darker deep deeper bright brighter pale paler soft softer vibrant vivid solid matte glossy "
    "metallic neon pastel rich warm cool muted royal sky baby hot forest lime dusty jet snow pure plain slightly very "
    "much bit little shiny brilliant dull bold electric intense all entirely completely fully totally mostly more less "
    "off midnight lemon sea ocean blood wine cherry chocolate gradient bluish reddish greenish yellowish different"
)
COLOR_NOUNS = word_set("color colour colors colours shade shades hue hues tone tones tint")
CASTS = word_set("hue hues tint tints tone tones cast casts tinge")
MATERIALS = word_set(
    "wood wooden glass metal leather plastic stone marble brick concrete cement steel iron bronze copper "
    "ceramic porcelain clay wool woolen velvet silk denim cotton paper cardboard rubber ice crystal diamond "
    "straw bamboo fabric lace granite chrome aluminum aluminium brass linen satin suede wicker tin titanium "
    "sandstone slate metallic stony mahogany oak pine felt fur knitted crystal obsidian jade lego chocolate gold "
    "silver lava tile tiles stainless polycarbonate terracotta canvas nylon"
)
SIZES = word_set(
    "small large big little tiny huge giant enormous tall short long wide narrow thick thin massive gigantic "
    "miniature oversized mini medium full-size"
)
LARGER = word_set(
    "bigger larger taller longer wider thicker fatter huge giant enormous gigantic big large tall long huge"
)
SMALLER = word_set("smaller shorter narrower thinner tiny small short tinier miniature")
STATES = word_set(
    "open closed empty full broken rusty dirty clean wet dry old new young older younger muddy dusty shiny glossy "
    "matte smooth rough fluffy furry hairy bald curly straight wavy striped checkered spotted plaid floral polka-dot "
    "transparent translucent opaque frozen melted burnt burning lit unlit sharp blurry damaged cracked torn wrinkled "
    "folded modern gothic vintage futuristic ancient rustic elegant fancy luxurious traditional non-traditional "
    "medieval victorian casual formal cozy messy tidy crowded bare leafless blooming leafy ripe rotten fresh muscular "
    "slim fat skinny chubby bearded tattooed pregnant asleep awake dead alive invisible visible thicker realistic "
    "lifelike sleek round square rectangular circular triangular oval flat pointy curved wicked simple detailed "
    "colorful colourful softer smoother rougher cleaner dirtier newer fluffier curlier straighter sparkling glowing "
    "metallic intact deflated inflated upright tilted naked shirtless barefoot golden icy mossy overgrown abandoned "
    "ruined weathered polished reflective patterned snowy snow-covered sunny rainy cloudy foggy misty stormy windy "
    "frosty flooded autumnal wintery wintry springtime greener redder bluer whiter blacker yellower pinker browner "
    "warmer cooler brighter darker lighter paler happy sad angry scared surprised excited tired bored worried serious "
    "cheerful smiling laughing crying frowning more-modern barren lush sandy grassy rocky grand cute scary spooky "
    "creepy evil friendly beautiful ugly pretty handsome rich poor busy calm stylish trendy classic retro antique "
    "military sporty regular normal plain ordinary unusual strange weird magical tropical urban rural industrial "
    "sickly holy royal blank hot cold tasty delicious expensive cheap professional bold italic cursive underlined "
    "uppercase thinner slimmer skinnier well-known real fake white-haired"
)
EXPRESSIONS = word_set(
    "happy sad angry scared surprised excited tired bored worried serious cheerful smiling laughing crying "
    "frowning joyful shocked confused disgusted afraid furious amused annoyed calm neutral happier sadder "
    "angrier gloomy melancholic delighted terrified grumpy"
)
ADJECTIVES = (
    COLORS
    | MATERIALS
    | SIZES
    | STATES
    | word_set(
        "light dark bright pale deep soft vibrant neon pastel navy charming modern classic picturesque human red- "
        "brick elderly sliced blurred painted parked colored coloured mounted toy decorative elegant graceful "
        "floating flying hanging standing sitting sleeping running walking moving beautiful simple lush green dense "
        "scenic coastal snowy cloudy potted stuffed plastic-wrapped inflatable hungry matching other same main "
        "entire whole front rear back delicious professional delicate exotic wild tame tasty sweet warm cold hot "
        "heavy sunlit nearby distant turquoise clear concert minimalist luxury stylized cartoon framed winged "
        "spotted electric subtle illuminated fluttering distressed sheer pointed armored haunted enchanted striking "
        "gentle faint ornate intricate fierce brave tattered worn-out embroidered pleated ripped sleeveless hooded "
        "taller tallest shorter shortest bright-red spiky feathered leafy flowering mossy majestic"
    )
)
SHAPES = word_set("square circle triangle diamond heart star cross ring round arch")
DEGREES = word_set(
    "brand slightly very more less much bit little all entirely completely fully totally even far way a too so"
)

# -- what a value says about the kind of change ------------------------------------------------------------------------

STYLE_NOUNS = word_set(
    "painting drawing sketch watercolor watercolour cartoon anime comic illustration mosaic mural graffiti portrait "
    "engraving woodcut etching lithograph fresco collage ukiyo-e manga pixel-art animation render rendering caricature "
    "photograph photo poster charcoal impressionism cubism surrealism sculpture style artwork art woodblock print "
    "aesthetic look doodle watercolors claymation origami oil pastel ink pencil 3d 2d fauvism baroque"
)
STYLE_HEADS = word_set(
    "painting drawing sketch watercolor watercolour cartoon anime comic illustration mosaic mural graffiti portrait "
    "engraving woodcut etching lithograph fresco collage manga animation render rendering caricature photograph style "
    "artwork art woodblock print aesthetic doodle claymation impressionism cubism surrealism pixel-art poster"
)
QUALITIES = word_set(
    "better best good nice nicer great professional natural appealing attractive beautiful pretty prettier perfect "
    "amazing awesome stunning polished impressive interesting decent high-quality pleasing eye-catching fancy fancier "
    "presentable quality"
)
"""They praise a picture, and say nothing about what is to be seen in it."""
FILTERS = word_set("sepia monochrome grayscale greyscale black-and-white negative")
WEATHER_WORDS = word_set(
    "snow rain fog mist storm thunderstorm snowfall night nighttime day daytime dusk dawn sunset sunrise winter "
    "summer spring autumn fall evening morning noon midnight twilight springtime wintertime summertime snowy "
    "rainy foggy misty stormy sunny cloudy windy overcast nightfall snowing raining drizzle blizzard"
)
TEXT_NOUNS = word_set(
    "text word words letter letters lettering caption writing number numbers title slogan sentence phrase "
    "inscription label sign logo"
)
TEXT_INTRODUCERS = word_set(
    "text word words letter letters caption writing number numbers title slogan phrase message name"
)
BODY_PARTS = word_set(
    "arm arms hand hands leg legs head foot feet eye eyes ear ears finger fingers shoulder shoulders knee knees "
    "elbow tail paw paws wing wings mouth eyebrow eyebrows thumb chin face"
)
PERSONS = word_set(
    "man woman boy girl person child kid baby people men women guy lady dog cat figure player character doll statue"
)
"""Who may be given something without an article: "give the man glasses"."""
CLOTHES = word_set(
    "shirt t-shirt tshirt dress suit hat cap coat jacket hoodie sweater jumper skirt pants jeans trousers shorts "
    "uniform costume gown kimono tuxedo vest scarf apron blouse robe swimsuit bikini outfit raincoat cloak cape armor "
    "armour sunglasses glasses helmet boots shoes gloves tie top crown"
)
MEASURES = word_set(
    "cup glass bottle bowl plate slice piece pair group bunch bouquet stack pile set row herd flock bag box jar "
    "can basket tray couple pack family school team vase mug pot loaf jug tub bucket crowd string collection "
    "cluster patch field carton lot swarm bundle handful pitcher wall sheet bar ball stick cloud type kind "
    "variety ring circle trail garden body"
)
"""Heads whose "of" belongs to the name: "a cup of coffee"."""
DEPICTIONS = word_set(
    "drawing painting picture photo image statue portrait poster figurine sculpture map model reflection"
)

# -- verbs -------------------------------------------------------------------------------------------------------------

VERBS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "remove": word_set("remove delete erase eliminate hide"),
        "extract": word_set("extract isolate"),
        "add": word_set("add insert include introduce attach install overlay draw create generate"),
        "put": word_set("put place position set arrange hang lay stick plant build park"),
        "move": word_set("move shift relocate slide reposition"),
        "replace": word_set("replace exchange"),
        "swap": word_set("swap switch trade"),
        "substitute": word_set("substitute"),
        "change": word_set(
            "change convert transform turn alter modify morph transfer adjust switch update translate edit"
        ),
        "color": word_set("paint color colour dye tint recolor recolour repaint colorize colourise colorise"),
        "make": word_set("make"),
        "render": word_set(
            "render redraw reimagine restyle stylize stylise depict redesign recreate repaint show draw"
        ),
        "give": word_set("give"),
        "apply": word_set("apply"),
        "light": word_set("brighten darken lighten dim illuminate"),
        "degree": word_set("increase decrease reduce raise lower boost adjust enhance intensify double triple halve"),
        "rotate": word_set("rotate flip mirror tilt pan"),
        "crop": word_set("crop trim"),
        "zoom": word_set("zoom"),
        "filter": word_set("blur pixelate soften defocus"),
        "restore": word_set("sharpen denoise deblur restore upscale unblur"),
        "resize": word_set("enlarge shrink resize scale widen magnify lengthen shorten"),
        "reframe": word_set("extend expand outpaint uncrop"),
        "duplicate": word_set("duplicate clone copy"),
        "write": word_set("write print engrave inscribe"),
        "open": word_set("open close shut"),
        "kindle": word_set("light ignite"),
        "pose": word_set("raise lower lift bend stretch cross fold turn tilt"),
        "dress": word_set("dress clothe"),
        "cover": word_set("cover wrap fill decorate surround"),
        "keep": word_set("keep preserve maintain retain leave"),
        "let": word_set("let have"),
    }
)
"""Frame -> verbs, in the order in which frames are tried."""
EDIT_VERBS = frozenset(verb for verbs in VERBS.values() for verb in verbs) | word_set(
    "get take cut swap edit photoshop"
)
CLAUSE_VERBS = EDIT_VERBS - word_set(
    "have show fold cross lay stick set scale print copy dress mirror open close shut can plant build park light "
    "extend expand hide"
)
"""Verbs that begin another request after "and" or a comma."""
ACTIONS = word_set(
    "raise lower lift turn look smile frown laugh cry sit stand walk run jump lie sleep swing ride fly hold lick dance "
    "wave point eat drink read kneel swim climb throw catch kick play sing shout yawn wink blink nod bend stretch lean "
    "face open close cross fold hug kiss drive push pull touch carry chase bark roar roll float crouch squat clap pose "
    "bow grin stare gaze glance salute yell scream stick tilt rest bite spread drop shake hang hide bloom come"
)
EXPRESSION_VERBS = word_set("smile frown laugh cry grin wink yawn scream")
LOOKING = word_set("look appear seem")
WEARING = word_set("wear hold have carry")
LOCATED = word_set(
    "visible present shown seen located placed situated positioned depicted pictured found parked standing "
    "sitting lying hanging seated perched leaning resting growing floating mounted suspended sleeping walking "
    "running swimming flying displayed set lounging"
)
"""Participles before a place or a relation."""
MENTIONED = word_set("visible present shown seen located situated positioned depicted pictured found appearing")
"""Those that say nothing more than that it is there."""
HOLDING = word_set(
    "wearing holding carrying having featuring riding with driving walking eating drinking reading playing"
)
KEEP_VERBS = word_set("keep preserve maintain retain leave")
KEEPING = word_set("keeping preserving maintaining retaining leaving")
UNCHANGED = word_set("unchanged untouched intact unaltered same identical original alone still")

# -- of what is no request to edit a picture -----------------------------------------------------------------------

ORDERS = word_set(
    "instruction instructions prompt prompts score scores rating ratings reward rewards judge judges evaluator "
    "assistant chatbot verdict system ignore disregard forget override planner plan plans answer answers question "
    "questions reply respond output token tokens admin administrator developer jailbreak policy policies grade grades "
    "json yaml xml html sql python javascript script code function variable api url http https database server "
    "password passwords account login user username pretend evaluate evaluation benchmark metric points"
)
"""Words of orders to a planner, judge or program."""
ERRANDS = word_set(
    "trash garbage rubbish recycling meeting meetings appointment appointments alarm reminder email emails mail "
    "calendar schedule flight flights deadline list playlist spreadsheet file files folder folders document documents "
    "essay poem article story summary paragraph report recipe dough batter oven tablespoon teaspoon tbsp tsp flour "
    "minutes hours tomorrow tonight yesterday monday tuesday wednesday thursday friday saturday sunday weekly daily "
    "homework groceries laundry dishes bill bills rent battery batteries filter's settings volume channel topic "
    "subject mind opinion wifi router contact contacts cart order subscription invoice comment comments hashtag tweet "
    "instances occurrences budget salary job team's diet mistake mistakes temperature medicine appendix vocabulary "
    "grammar sentence sentences"
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
