CREATE DOMAIN "D" AS
CLASS::A EACH JSON '$.x' KEY channel.title (channel.title:String);
