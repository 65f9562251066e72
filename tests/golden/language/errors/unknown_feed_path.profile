CREATE DOMAIN "D" AS
CLASS::A(channel.item.pubdat:String);
