CREATE DOMAIN "Pages" AS CLASS::PAGE(text:String), CLASS::RSS(channel.item.title:String);
CREATE SOURCE "s" OF RRS AT 'https://example.org/s';
