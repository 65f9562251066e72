CREATE DOMAIN "D" AS
CLASS::A(channel.item.title:Strng);
