"""The thirteen categories of objects of EdiVal's appendix A, by the last word of a name.

The titles are the paper's; which word belongs where is ours, since the paper prints numbers by category in a picture
only. Most of the words are those of the published instruction file.
"""

from __future__ import annotations

from collections.abc import Mapping

OTHER = "Other"

_WORDS = {
    "Clothing & Accessories": "shirt jacket pants dress shoe shorts hat necklace coat jeans sweater skirt tie robe top "
    "t-shirt scarf boot cap sock bow watch backpack glove earring blazer belt sandal jersey bracelet ring hoodie "
    "wristband suit blouse uniform bag leggings sneaker vest collar armor overalls headband cardigan cape cloak "
    "accessory undershirt outfit goggles beanie headscarf bodysuit sash crown sunglasses sleeve armband stockings "
    "shawl trousers costume apron swimsuit suspenders handbag bonnet romper bootie beret brooch choker "
    "turtleneck bra hairpin halter briefs gown flip-flop heel cleat zipper bib harness umbrella helmet strap pin",
    "Furniture & Home": "chair table curtain lamp vase blanket cabinet shelf desk bench pillow cloth sofa sink mirror "
    "lantern sheet lampshade faucet towel toilet bed nightstand seat tablecloth headboard bookshelf fan cushion rug "
    "stool dresser showerhead recliner mattress bedding bedsheet footrest candle chest frame drawer couch carpet",
    "Food & Kitchen": "plate bottle bowl cup cake drink pot fork knife mug straw glass spoon ladle dish food pizza "
    "broccoli strawberry apple cookie topping refrigerator napkin jar silverware cream soup garnish blender celery "
    "carrot snack smoothie cheesecake lemon grapefruit lime blueberry tomato vegetable tray pumpkin slice bread fruit "
    "kettle pan",
    "Structures & Places": "wall fence pole door window building railing skyscraper platform tile pavement post "
    "streetlight streetlamp statue floor road roof stairs tower awning bridge pagoda fountain ledge beam deck step "
    "rail handrail baseboard sculpture hydrant pedestal partition countertop house",
    "Vehicles & Transport": "car bus tire airplane boat bicycle wheel motorcycle train truck engine headlight biplane "
    "cart saddle ship van scooter helicopter",
    "Nature & Outdoors": "tree plant flower leaf rock grass log shrubbery foliage rose vegetation petal blossom ground "
    "bush stone mountain cloud sky",
    "Animals": "horse cat bear dog bird sheep zebra elephant animal butterfly giraffe fox goat kitten cub cow fish "
    "duck tail",
    "Sports, Toys & Hobby": "ball guitar toy balloon ski surfboard racket basketball snowboard bat dumbbell instrument "
    "figurine doll kite sword wand skateboard",
    "Stationery & Office": "pen notebook book magazine document board paper clipboard binder folder chalkboard menu "
    "scroll pencil sign signboard",
    "Electronics & Tech": "laptop phone smartphone keyboard headphone camera monitor television tablet speaker headset "
    "computer mouse screen cable device outlet switch machine walkie-talkie conditioner",
    "Body & Medical": "hair hand leg beard ear scar bandage stethoscope skeleton arm face",
    "Tools & Industrial": "rope ladder saw pipe hose hook tripod rod chain rifle cone container box basket stick staff "
    "hammer bucket",
}

CATEGORIES: tuple[str, ...] = (*_WORDS, OTHER)
"""In the paper's order."""

_CATEGORY: Mapping[str, str] = {word: category for category, words in _WORDS.items() for word in words.split()}


def category_of(name: str) -> str:
    """The category of an object by the last word of its name, singular or plural; `Other` for an unknown word."""
    word = name.rsplit(maxsplit=1)[-1].casefold() if name.split() else ""
    singular = (word, word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("ies") + "y")
    if word == "leaves":
        return _CATEGORY["leaf"]
    return next((_CATEGORY[one] for one in singular if one in _CATEGORY), OTHER)
