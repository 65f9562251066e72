CREATE DOMAIN "D" AS
CLASS::A(channel.title:String, price:Decimal FROM JSON '$.p');
